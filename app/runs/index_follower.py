"""Keeps one run's index up to date while it grows, in a thread of its own.

The thread owns the index (ingest.index.indexer); where another process does, it follows what that
one publishes. Looking is cheap (time stamps of three folders); a pass follows only where one
changed. A run at rest is looked at seldom and its index is closed. Nothing ends the thread but
`ask_to_stop`, or the run being deleted: an error becomes `problem`, and the pass is tried again.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from ingest.errors import UserError
from ingest.index.indexer import Busy, Indexer, PassResult
from ingest.index.retention import KEEP_ALL, Keep
from ingest.index.snapshots import current_snapshot, index_folder, is_up_to_date, look
from ingest.process_tuning import trim_heap
from ingest.run import Run
from ingest.run_folder.run_files import is_run_folder

LOOK_EVERY_S = 0.1
"""How often the folders of a run that is written are looked at."""
REST_S = {"finished": 5.0, "lost": 1.0}
"""How often those of a run at rest are."""
PASS_GAP_S = 0.7
"""Between two passes: pages ask for everything again after each, and nobody reads news that come
more than once a second."""
PASS_EVERY_S = 5.0
"""A pass is made this often in any case: to merge, and where time stamps are not to be trusted."""
MERGE_EVERY_S = 2.0
MERGE_MOST_S = 0.25
"""Small files are merged at least so often, for so long at a time: news wait no longer. Where files
come so fast that taking them in takes longer, so may merging, up to MERGE_EVERY_S: else they become
ever more.
"""
OWN_EVERY_S = 1.0
"""How often the thread tries to own an index that another process owns."""
RETRY_S = 2.0
"""Pause after something went wrong."""
_SETTLED_NS = 50_000_000
"""A folder that changed this shortly before it was listed may change again with the same stamp."""


@dataclass
class Passes:
    """What the followers of a server have done."""

    number: int = 0
    seconds: float = 0.0
    failed: int = 0


class Follower:
    """Indexes one run; `on_news` is called from the thread: with True when the index has something
    new, with False after `announce_again`.
    """

    def __init__(
        self, run: Run, on_news: Callable[[bool], None], passes: Passes, keep: Keep = KEEP_ALL
    ) -> None:
        self.run = run
        self._keep = keep
        self.problem: str | None = None
        self.gone = False
        self._on_news = on_news
        self._passes = passes
        self._stop = threading.Event()
        self._awake = threading.Event()
        self._ready = threading.Event()
        self._again = threading.Event()
        self._rest_s: float | None = None
        self._published: Path | None = None
        self._caught_up_s = 0.0
        self._thread = threading.Thread(
            target=self._main, name=f"follow {run.folder.name}", daemon=True
        )

    def start(self) -> None:
        """Begin; `wait_ready` waits until the run can be queried."""
        self._thread.start()

    def wait_ready(self, timeout_s: float) -> bool:
        """Whether the run can be queried, or it is known why not, after at most timeout_s."""
        return self._ready.wait(timeout_s)

    @property
    def has_snapshot(self) -> bool:
        """Whether there is anything to query."""
        return current_snapshot(index_folder(self.run.folder)) is not None

    def catch_up(self, timeout_s: float) -> bool:
        """Wait until all that has been written before this call is indexed; whether it is."""
        called_s = time.monotonic()
        self._awake.set()
        while self._caught_up_s < called_s and self._thread.is_alive():
            if time.monotonic() - called_s > timeout_s or self._stop.wait(LOOK_EVERY_S / 2):
                return False
        return not self.gone

    def announce_again(self) -> None:
        """Have the thread announce news soon, though nothing was written."""
        self._again.set()
        self._awake.set()

    def ask_to_stop(self) -> None:
        """Have the thread end soon."""
        self._stop.set()
        self._awake.set()

    def join(self, timeout_s: float | None = None) -> bool:
        """Wait for the thread; whether it has ended."""
        if self._thread.ident is not None:
            self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def _main(self) -> None:
        while not self._stop.is_set() and not self.gone:
            try:
                self._one_turn()
            except Busy:
                self._watch()
            except Exception as error:  # noqa: BLE001 - the thread's edge: shown, and tried again
                if self._exists():
                    self._passes.failed += 1
                    kind = "" if isinstance(error, UserError) else f"{type(error).__name__}: "
                    self._announce(f"{kind}{error}")
                    self._stop.wait(RETRY_S)
        self._ready.set()

    def _one_turn(self) -> None:
        """Rest where nothing is to be done, else own the index until nothing is."""
        folder = self.run.folder
        if not self._exists():
            return
        self._announce_if_asked()
        looked_s = time.monotonic()
        if is_up_to_date(index_folder(folder), folder):
            self._caught_up_s = looked_s
            self._see_state()
            if not self._ready.is_set() or self.problem:
                self._announce(None)  # what went wrong holds no longer
            if self._rest_s is not None:
                self._awake.wait(self._rest_s)
                self._awake.clear()
                return
        with Indexer(folder, self._keep) as indexer:
            self._index(indexer)

    def _index(self, indexer: Indexer) -> None:
        """Refresh until stopped, or until the run is at rest and all of it is published."""
        seen, passed_s, merged_s, merged = None, 0.0, time.monotonic(), False
        merge_most_s = MERGE_MOST_S
        while not self._stop.is_set() and self._exists():
            self._announce_if_asked()
            looked_s, cpu_s, now = time.monotonic(), time.thread_time(), _look(self.run.folder)
            is_due = time.monotonic() - passed_s >= PASS_EVERY_S
            if now != seen or is_due or not merged:
                # merging waits for a quiet moment, but not forever: some runs have none
                merge = now == seen or time.monotonic() - merged_s >= MERGE_EVERY_S
                result = self._pass(indexer, merge, merge_most_s)
                merge_most_s = min(max(MERGE_MOST_S, result.took_in_s), MERGE_EVERY_S)
                merged = merge and not result.merged_files  # else more may be due
                merged_s = time.monotonic() if merge else merged_s
                seen = now if _is_settled(now) else None
                if result.published or not self._ready.is_set() or self.problem:
                    self._announce(None)
                passed_s = time.monotonic()
                self._see_state()
            self._caught_up_s = looked_s
            if self._rest_s is not None and is_up_to_date(indexer.index_folder, self.run.folder):
                return
            gap_s = _rest_s(passed_s - looked_s, time.thread_time() - cpu_s)
            self._stop.wait(gap_s if passed_s > looked_s else LOOK_EVERY_S)

    def _pass(self, indexer: Indexer, merge: bool, merge_most_s: float) -> PassResult:
        begun_s = time.monotonic()
        result = indexer.refresh(merge, merge_most_s)
        if result.merged_files:
            trim_heap()
        self._passes.number += 1
        self._passes.seconds += time.monotonic() - begun_s
        return result

    def _watch(self) -> None:
        """Follow for a moment what another owner publishes."""
        folder = index_folder(self.run.folder)
        until_s = time.monotonic() + OWN_EVERY_S
        while not self._stop.is_set() and time.monotonic() < until_s:
            now = current_snapshot(folder)
            if now is not None and now != self._published:
                self._published = now
                self._announce(None)
            self._stop.wait(LOOK_EVERY_S)

    def _announce(self, problem: str | None) -> None:
        """Note what is wrong (None: nothing) and announce news; who waits for the run goes on after
        that, lest the first answer about it be about a version before the first.
        """
        self.problem = problem
        try:
            self._on_news(True)
        finally:
            self._ready.set()

    def _announce_if_asked(self) -> None:
        if self._again.is_set():
            self._again.clear()
            self._on_news(False)

    def _exists(self) -> bool:
        """Whether the run is still there; if not, announces that it has gone."""
        if not is_run_folder(self.run.folder):
            self.gone = True
            self._announce(None)
        return not self.gone

    def _see_state(self) -> None:
        self._rest_s = REST_S.get(self.run.state)


def _look(run_folder: Path) -> dict[str, int]:
    """When each folder of a run changed last, asked of the file server where there is one.

    NFS keeps time stamps for up to a minute, and asks again when a folder is opened.
    """
    for name in ("segments", "ranks"):
        with suppress(OSError):
            os.close(os.open(run_folder / name, os.O_RDONLY | os.O_DIRECTORY))
    return look(run_folder)


def _rest_s(took_s: float, cpu_s: float) -> float:
    """Rest after a pass and the prefetching after it: as long as they took, so that they never have
    more than half of a core. Where the cores are full of others' work most of that was waiting for
    one, and twice their CPU time is rest enough.
    """
    return max(PASS_GAP_S, min(took_s, 2 * cpu_s))


def _is_settled(seen: dict[str, int]) -> bool:
    return time.time_ns() - max(seen.values(), default=0) > _SETTLED_NS
