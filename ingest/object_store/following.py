"""Follows one run of a bucket in a thread of its own, while somebody uses the run."""

from __future__ import annotations

import threading
from collections.abc import Callable

from ingest.errors import UserError, disk_error
from ingest.object_store.cache import Cache
from ingest.object_store.journal import Damaged
from ingest.object_store.mirrored_run import MirroredRun, Stopped

LOOK_EVERY_S, LOOK_SELDOM_S = 2.0, 30.0
"""Between two looks at a run in which something was new, and in which long nothing was."""
BEGIN_AGAIN_S = 10.0
"""Pause before a run that was never complete here is fetched again: the next try may fail alike."""
LISTED_PER_S = 1000
"""A listing has 1,000 objects per request: no run costs more than one such request a second."""


class Following:
    """The thread, which starts at once. It ends where the run is not used any more, or `stop` is
    set. `problem`: what kept the last look from ending, one sentence; it is tried again.
    """

    def __init__(
        self, name: str, run: MirroredRun, cache: Cache, is_used: Callable[[str], bool]
    ) -> None:
        self.has_looked = False
        self.problem = ""
        self.progress = ""
        self.stop = threading.Event()
        self._name = name
        self._run = run
        self._cache = cache
        self._is_used = is_used
        self._thread = threading.Thread(target=self._main, name=f"fetch {name}", daemon=True)
        self._thread.start()

    @property
    def has_ended(self) -> bool:
        """Whether the run is not followed any more."""
        return not self._thread.is_alive()

    def join(self, limit_s: float) -> None:
        """Wait for the end of the thread."""
        self._thread.join(limit_s)

    def _main(self) -> None:
        pause_s = LOOK_EVERY_S
        while not self.stop.is_set() and self._is_used(self._name):
            pause_s = self._turn(pause_s)
            self.stop.wait(pause_s)

    def _turn(self, pause_s: float) -> float:
        """Look once; seconds until the next look."""
        longer_s = min(2 * pause_s, LOOK_SELDOM_S)
        try:
            found = self._run.look(self._make_room, self._on_fetched, self.stop)
        except Stopped:
            return 0.0
        except Damaged:
            return self._begin_again(longer_s)
        except UserError as error:
            self.problem = str(error)
            return longer_s
        self.problem = ""
        self.has_looked = found.is_whole
        least_s = max(LOOK_EVERY_S, found.num_listed / LISTED_PER_S)
        return least_s if found.num_new else max(least_s, longer_s)

    def _begin_again(self, longer_s: float) -> float:
        """Delete what is here of the run: it is unknown what it is, or is merged another way in the
        bucket.
        """
        try:
            self._cache.delete(self._name)
        except OSError as error:
            self.problem = str(disk_error(str(self._cache.runs), error))
            return longer_s
        pause_s = LOOK_SELDOM_S if self.has_looked else BEGIN_AGAIN_S
        self.has_looked = False
        return pause_s

    def _make_room(self, num_bytes: int) -> None:
        self._cache.make_room(self._name, num_bytes)

    def _on_fetched(self, num_fetched: int, num_new: int) -> None:
        self.progress = f": {num_fetched:,} of {num_new:,} files"
