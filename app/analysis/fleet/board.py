"""The summaries of a hub's runs, kept fresh by one thread of its own: a request never waits for
one.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from weakref import ref

from app.analysis.fleet.collected import Collected, collected, make
from app.runs.hub import Hub
from app.runs.per_hub import PerHub
from diagnosis.fleet.hosts import SlowHosts, slow_hosts
from diagnosis.fleet.summary import Summary
from ingest.errors import UserError
from ingest.imports.preview import is_shown
from ingest.stopping import Interrupted, Stop

LOOK_EVERY_S = 5.0
"""The folders are looked at this often at most, however many browsers ask."""
_IDLE_S = 30.0
"""Without requests for this long the thread ends."""
_FIRST_WAIT_S = 0.4
"""The first request waits this long for summaries that are stored already."""
_REST_S = 0.05
"""Between two rounds where summaries are missing."""
_ROUND_S = 30.0
"""After this long the folders are looked at again, however many summaries are missing."""
_AGAIN_S = 60.0
"""A run that still grows, or could not be read, is summarised again after this long."""
_CLOSE_S = 10.0


@dataclass(frozen=True)
class Standing:
    """What is known by now. `current`: the run that is being summarised; `num_missing`: runs that
    wait for it, those included of which an older summary is known. `has_looked`: whether the stored
    summaries have been read.
    """

    summaries: dict[str, Summary]
    hosts: SlowHosts
    problems: dict[str, str]
    num_missing: int
    current: str | None
    num_elsewhere: int
    has_looked: bool = True


_NOTHING = Standing({}, SlowHosts(), {}, 0, None, 0, has_looked=False)


class FleetBoard:
    """Summaries of all runs below a folder. `standing` returns at once; a thread makes the rest."""

    def __init__(self, hub: Hub) -> None:
        self._hub = ref(hub)  # a board ends with its hub
        self._standing = _NOTHING
        self._tried_s: dict[Path, float] = {}
        self._problems: dict[str, str] = {}
        self._stop = Stop()
        self._wake = threading.Condition()
        self._looked = threading.Event()
        self._asked_s = 0.0
        self._thread: threading.Thread | None = None
        self._closed = False

    def standing(self) -> Standing:
        """What is known by now."""
        with self._wake:
            self._asked_s = time.monotonic()
            if self._thread is None and not self._closed:
                self._thread = threading.Thread(target=self._work, name="fleet", daemon=True)
                self._thread.start()
        self._looked.wait(_FIRST_WAIT_S)
        return self._standing

    def close(self, limit_s: float = _CLOSE_S) -> None:
        """Stop after the current query; a thread killed inside DuckDB ends the process."""
        with self._wake:
            self._closed = True
            self._stop()
            self._wake.notify()
            thread = self._thread
        # its own thread may be the last that held the hub, and so the one that closes the board
        if thread is not None and thread is not threading.current_thread():
            thread.join(limit_s)

    def _work(self) -> None:
        try:
            while not self._closed:
                self._round()
                with self._wake:
                    self._wake.wait(_REST_S if self._standing.num_missing else LOOK_EVERY_S)
                    if self._is_left():
                        self._thread = None
                        return
        finally:  # also after a bug: the next request starts another one
            with self._wake:
                if self._thread is threading.current_thread():
                    self._thread = None

    def _round(self) -> None:
        begun_s = time.monotonic()
        found = collected(self._folders())
        known = set(found.summaries) | {folder.name for folder in found.missing}
        self._problems = {name: text for name, text in self._problems.items() if name in known}
        due = self._due(found.missing)
        self._publish(found, len(due), None)
        self._looked.set()
        while due and time.monotonic() - begun_s < _ROUND_S and not self._is_left():
            self._publish(found, len(due), due[0].name)
            self._make(found, due.pop(0))
        self._publish(found, len(due), None)

    def _is_left(self) -> bool:
        return self._closed or time.monotonic() - self._asked_s > _IDLE_S

    def _make(self, found: Collected, folder: Path) -> None:
        self._tried_s[folder] = time.monotonic()
        try:
            make(found, folder, self._stop)
        except Interrupted:  # the board is closing
            return
        self._problems.pop(folder.name, None)
        if folder.name in found.problems:
            self._problems[folder.name] = found.problems[folder.name]

    def _due(self, missing: Iterable[Path]) -> list[Path]:
        now_s = time.monotonic()
        return [
            folder
            for folder in missing
            if folder not in self._tried_s or now_s - self._tried_s[folder] > _AGAIN_S
        ]

    def _folders(self) -> list[Path]:
        hub = self._hub()
        try:
            return [f for f in hub.folders() if not is_shown(f)] if hub is not None else []
        except UserError:  # the folder of runs has gone
            return []

    def _publish(self, found: Collected, num_missing: int, current: str | None) -> None:
        summaries = dict(found.summaries)
        hosts = self._standing.hosts
        if summaries != self._standing.summaries:
            hosts = slow_hosts(summaries)
        problems = self._problems | found.problems
        self._standing = Standing(
            summaries, hosts, problems, num_missing, current, len(found.elsewhere)
        )


_boards = PerHub(FleetBoard)


def fleet_board_of(hub: Hub) -> FleetBoard:
    """The one board of a hub."""
    return _boards[hub]
