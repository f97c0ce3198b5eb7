"""A source that may block, read in a thread of its own: a hung driver stops no other source."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable

from trace_hooks.recording.clock import now
from trace_hooks.telemetry.reading import Reading, Source, SourceError, reason_of

PATIENCE_S = 5.0
"""A source is given up while it has not answered for this long."""

SHARE, MOST_SELDOM_S = 1e-3, 10.0
"""A driver may take this share of a core; one that takes more is read more seldom, down to this."""

_OF_OTHER_VERSIONS = (AttributeError, TypeError)
"""What a driver's library of a version that lacks or changed a function comes to."""


class Background(Source):
    """The Source that `make` opens, both in a thread of its own."""

    def __init__(
        self, name: str, make: Callable[[], Source], patience_s: float = PATIENCE_S
    ) -> None:
        self.name = name
        self._make, self._patience_s = make, patience_s
        self._want, self._lock = threading.Event(), threading.Lock()
        self._answer: tuple[int, list[Reading], str] | None = None  # when, what, or why not
        self._asked_s: float | None = None
        self._stopped = False
        self._thread = threading.Thread(target=self._run, name=f"telemetry {name}", daemon=True)
        self._thread.start()

    def read(self) -> Iterable[Reading]:
        """What was read since the last call; asks for the next. Raises SourceError."""
        now_s = time.monotonic()
        with self._lock:
            answer, self._answer = self._answer, None
        if answer is None and self._asked_s is not None:
            waited_s = now_s - self._asked_s
            if waited_s > self._patience_s:
                raise SourceError(f"no answer for {waited_s:.0f} s")
            return []
        self._asked_s = now_s
        self._want.set()
        if answer is None:
            return []
        self.read_ns, readings, reason = answer
        if reason:
            raise SourceError(reason)
        return readings

    def stop(self) -> None:
        """End the thread, unless its driver hangs."""
        self._stopped = True
        self._want.set()

    def _run(self) -> None:
        source: Source | None = None
        while True:
            self._want.wait()
            self._want.clear()
            if self._stopped:
                return
            readings: list[Reading] = []
            reason = ""
            try:
                source = source or self._make()
                cost_from_s = time.thread_time()
                readings = list(source.read())
                self._slow_down(time.thread_time() - cost_from_s)
                self.scope = source.scope
            except (SourceError, OSError, ValueError, LookupError, *_OF_OTHER_VERSIONS) as error:
                reason = reason_of(error)
            with self._lock:
                self._answer = (now(), readings, reason)

    def _slow_down(self, cost_s: float) -> None:
        self.every_s = max(1.0, min(cost_s / SHARE, MOST_SELDOM_S))
