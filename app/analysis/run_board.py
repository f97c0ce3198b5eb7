"""The list of runs, kept fresh by one thread of its own: a request never waits for an index."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from weakref import ref

import duckdb

from app.analysis.diagnosis import diagnose_run, known_diagnosis
from app.analysis.fleet.stored import stored_summary
from app.analysis.headline import headline
from app.runs.hub import Hub
from app.runs.per_hub import PerHub
from app.views.run.runs import (
    Card,
    Judged,
    RunRow,
    activity_ns,
    importing_card,
    read_card,
    run_row,
    waiting_card,
    with_stored,
    written_ns,
)
from diagnosis.findings import Diagnosis
from diagnosis.fleet.summary import Summary
from ingest.errors import UserError
from ingest.imports.preview import is_shown
from ingest.index.snapshots import current_snapshot, index_folder, is_up_to_date
from ingest.run import Run
from ingest.run_folder.run_files import RUN_FILE
from ingest.stopping import Stop

LOOK_EVERY_S = 1.0
"""The folders are looked at this often at most, however many browsers ask."""
_IDLE_S = 30.0
"""Without requests for this long the thread ends."""
_FIRST_WAIT_S = 0.4
"""The first request waits this long for cards that are read fast."""
_RETRY_S = 10.0
"""A damaged run is looked at again after this long."""
_CLOSE_S = 10.0
_JUDGE_EVERY_S = 15.0
"""A live run is diagnosed again after this long at the earliest."""

_Key = tuple[str, int]


class RunBoard:
    """Cards of all runs below a folder. `rows` returns at once; a thread reads what is new."""

    def __init__(self, hub: Hub) -> None:
        self._hub = ref(hub)  # a board ends with its hub
        self._cards: dict[Path, tuple[_Key, Card]] = {}
        self._retry_s: dict[Path, float] = {}
        self._judged: dict[Path, tuple[_Key, float]] = {}
        self._stop = Stop()
        self._wake = threading.Condition()
        self._asked_s = 0.0
        self._thread: threading.Thread | None = None
        self._closed = False
        self._round_done = threading.Event()

    def rows(self) -> list[RunRow]:
        """The list, newest activity first; what is not read yet is `indexing`."""
        with self._wake:
            self._asked_s = time.monotonic()
            if self._thread is None and not self._closed:
                self._round_done.clear()
                self._thread = threading.Thread(target=self._work, name="run board", daemon=True)
                self._thread.start()
        if not self._cards:
            self._round_done.wait(_FIRST_WAIT_S)
        folders = self._folders()
        with self._wake:
            cards = dict(self._cards)
        shown = [_card_of(f, cards) for f in folders]
        shown.sort(key=lambda card: (-activity_ns(card), card.name))
        now_ns = time.time_ns()
        return with_stored([run_row(card, now_ns) for card in shown], self._elsewhere())

    def close(self, limit_s: float = _CLOSE_S) -> None:
        """Stop reading after the current run; a thread killed inside DuckDB ends the process."""
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
                    self._wake.wait(LOOK_EVERY_S)
                    if time.monotonic() - self._asked_s > _IDLE_S:
                        self._thread = None
                        return
        finally:  # also after a bug: the next request starts another one
            with self._wake:
                if self._thread is threading.current_thread():
                    self._thread = None

    def _round(self) -> None:
        folders = [folder for folder in self._folders() if not is_shown(folder)]
        here = set(folders)
        with self._wake:
            self._cards = {f: held for f, held in self._cards.items() if f in here}
        keys = {folder: self._settled_key(folder) for folder in folders}
        for folder in sorted(folders, key=lambda folder: keys[folder] is None):
            if self._closed:
                return
            self._read(folder, keys[folder])
        self._round_done.set()
        for folder in folders:
            self._judge(folder)

    def _judge(self, folder: Path) -> None:
        """Put the diagnosis into the card, unless this state of the run has been judged."""
        held, last = self._cards.get(folder), self._judged.get(folder)
        if self._closed or held is None or held[1].facts is None:
            return
        if last is not None and (last[0] == held[0] or time.monotonic() - last[1] < _JUDGE_EVERY_S):
            return
        hub = self._hub()
        known = None if hub is None else known_diagnosis(hub, folder.name)
        judged = judgement(folder, self._stop) if known is None else _of_diagnosis(known)
        self._judged[folder] = (held[0], time.monotonic())
        with self._wake:
            self._cards[folder] = (held[0], replace(held[1], judged=judged, was_judged=True))

    def _folders(self) -> list[Path]:
        hub = self._hub()
        try:
            return hub.folders() if hub is not None else []
        except UserError:  # the folder of runs has gone
            return []

    def _elsewhere(self) -> Mapping[str, int]:
        hub = self._hub()
        return hub.elsewhere() if hub is not None else {}

    def _settled_key(self, folder: Path) -> _Key | None:
        """What the folder's card depends on, None while its index lacks something."""
        try:
            index = index_folder(folder)
            if not is_up_to_date(index, folder):
                return None
            return (str(current_snapshot(index)), (folder / RUN_FILE).stat().st_mtime_ns)
        except (OSError, UserError):
            return None

    def _read(self, folder: Path, key: _Key | None) -> None:
        if key is None:
            if time.monotonic() < self._retry_s.get(folder, 0.0):
                return
            key = self._indexed(folder)
        held = self._cards.get(folder)
        if held is not None and held[0] == key:
            return
        card = read_card(folder)
        if card.problem is not None:
            self._retry_s[folder] = time.monotonic() + _RETRY_S
        if held is not None:
            card = replace(card, judged=held[1].judged, was_judged=held[1].was_judged)
        with self._wake:
            self._cards[folder] = (key, card)

    def _indexed(self, folder: Path) -> _Key:
        """Bring the index up to date on this thread, unless the run's follower does so."""
        try:
            Run(folder).refresh()
            return (str(current_snapshot(index_folder(folder))), written_ns(folder))
        except (UserError, OSError, duckdb.Error) as error:
            self._retry_s[folder] = time.monotonic() + _RETRY_S
            return (f"damaged: {error}", written_ns(folder))


def _card_of(folder: Path, cards: Mapping[Path, tuple[_Key, Card]]) -> Card:
    if is_shown(folder):
        return importing_card(folder)
    return cards[folder][1] if folder in cards else waiting_card(folder)


def judgement(folder: Path, stop: Stop) -> Judged | None:
    """Findings of a run in its published state; None where there is not enough data. Those of its
    summary, where one of this state is stored.
    """
    try:
        stored = stored_summary(folder)
        if stored is not None and stored.is_newest:
            return _judged(stored.summary)
        with Run(folder) as run:
            diagnosis = diagnose_run(run, None, stop)
    except UserError:  # no step yet, or the board is closing
        return None
    return _of_diagnosis(diagnosis)


def _of_diagnosis(diagnosis: Diagnosis) -> Judged | None:
    if not diagnosis.judged:
        return None
    present = sum(finding.ongoing for finding in diagnosis.findings)
    first = diagnosis.findings[0].title if diagnosis.findings else ""
    past = len(diagnosis.findings) - present
    is_amber = headline(diagnosis).tone == "warning"
    is_urgent = bool(first) and diagnosis.findings[0].severity == "urgent"
    return Judged(present, past, first, len(diagnosis.set_aside), is_amber, is_urgent)


def _judged(summary: Summary) -> Judged | None:
    if not summary.judged:
        return None
    present = sum(found.severity != "past" for found in summary.findings)
    first = summary.findings[0].title if summary.findings else ""
    past = len(summary.findings) - present
    is_urgent = bool(first) and summary.findings[0].severity == "urgent"
    return Judged(present, past, first, summary.num_noted, summary.is_partial, is_urgent)


_boards = PerHub(RunBoard)


def board_of(hub: Hub) -> RunBoard:
    """The one board of a hub."""
    return _boards[hub]
