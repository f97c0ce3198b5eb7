"""The thread of the watchdog that is the host's collector as soon as rows wait for one.

Until then it loads nothing: pyarrow would double the memory and the CPU time of the watchdog of a
job that ends within seconds, whose ranks then publish what waits.
"""

from __future__ import annotations

import threading
from pathlib import Path

from trace_hooks.job.spool import BATCH, MINE, TAKEN, Spool
from trace_hooks.recording import guard

FIRST_S = 1.0
"""Ranks wait ten times as long for a collector (job/handover.py)."""
LOOK_S = 0.2
STOP_S = 10.0


class CollectorThread:
    """Publishes what ranks leave in the spool of a meeting folder; only the constructor raises
    OSError.
    """

    def __init__(self, meeting: Path) -> None:
        self._meeting = meeting
        self._spool = Spool(meeting, "collector")
        self._stopping, self._hurry = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run, name="collector", daemon=True)

    def spool_of(self, name: str) -> Spool:
        """The spool for another part of this process that has rows to publish."""
        return Spool(self._meeting, name)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def hurry(self) -> None:
        """Publish at once: a rank was lost."""
        self._hurry.set()

    def stop(self) -> None:
        """Publish everything and give the spool back; waits STOP_S at most for a hung disk."""
        self._stopping.set()
        self._thread.join(STOP_S)

    def _run(self) -> None:
        is_over = self._stopping.wait(FIRST_S)
        while not self._has_rows():
            if is_over:
                return
            is_over = self._stopping.wait(LOOK_S)
        guard.attempt("collector.run", self._collect, switch_off=False)

    def _has_rows(self) -> bool:
        return any(self._spool.batches(BATCH, TAKEN, MINE, ".tmp"))

    def _collect(self) -> None:
        from trace_hooks.watchdog.collector import Collector  # pyarrow

        Collector(self._meeting, self._hurry).run(self._stopping)
