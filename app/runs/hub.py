"""The runs of a server: opened once, kept indexed while they grow, and the answers made of them.

One Hub per server. Everything here may be called from many threads. A run has a `version` that goes
up whenever its index got something new; answers are kept per (run, version).
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from contextvars import ContextVar
from pathlib import Path
from typing import Any, TypeVar

import duckdb

from app.runs.cache import Answers
from app.runs.index_follower import Follower, Passes
from app.runs.prefetch import Watched
from app.runs.refresh_policy import Due, Pace
from ingest.errors import UserError
from ingest.imports.preview import shown_runs
from ingest.index.retention import KEEP_ALL, Keep
from ingest.run import Run, RunStore
from ingest.stopping import Stop

T = TypeVar("T")

MOST_PACED = 256
"""Answers of one run whose pace is known (refresh_policy.py): addresses ask for any number."""
MOST_OPEN = 32
"""Runs kept open and followed; the one asked for least recently is let go of."""
FIRST_INDEX_S = 3.0
"""How long a request waits for the first index of a run; the live socket tells when it is there."""
LOOK_FOR_RUNS_S = 1.0
CLOSE_S = 1.5
"""What followers get to finish a pass when the server stops; a pass that is cut short is made again
from the files."""
BEHIND_AT_ONCE = 2
"""Answers that are made anew at once behind those who have the old ones."""
ALL_RUNS = ""
"""What a listener is given as the run when the list of runs has changed."""

_coming: ContextVar[int] = ContextVar("coming", default=0)
"""The version that answers are made for before it is told; set in a follower's thread."""

Listener = Callable[[str, int], None]
"""Called with (run, version) from a thread of the hub."""


class Awaited(UserError):
    """A run that is not there yet and will be."""


class Indexing(Awaited):
    """A run that is there, and whose first index is being made."""


class _Opened:
    def __init__(
        self, run: Run, changed: Callable[[bool], None], passes: Passes, keep: Keep
    ) -> None:
        self.run = run
        self.version = 0
        self.news = 0
        """goes up whenever the index got something new; the version does too where old news are
        told again"""
        self.told_s = 0.0
        self.watched = Watched()
        self.paces: OrderedDict[Hashable, Pace] = OrderedDict()
        self.follower = Follower(run, changed, passes, keep)

    def pace(self, key: Hashable, compute: Callable[[Run, Stop | None], object]) -> Pace:
        """The pace of an answer; those of answers that nobody asks for any more are dropped."""
        pace = self.paces.setdefault(key, Pace(compute))
        self.paces.move_to_end(key)
        while len(self.paces) > MOST_PACED:
            self.paces.popitem(last=False)
        return pace


class Hub:
    """The runs below one folder, or one run folder; raises UserError where there is none.

    `keep`: what content of them may stay.
    """

    def __init__(self, runs: Path, most_open: int = MOST_OPEN, keep: Keep = KEEP_ALL) -> None:
        self.keep = keep
        self.store = RunStore(Path(runs).resolve() if Path(runs).exists() else runs)
        self.passes = Passes()
        self.answers = Answers()
        self.runs_version = 0
        """goes up whenever a run has come or gone"""
        self._most_open = most_open
        self._opened: OrderedDict[str, _Opened] = OrderedDict()
        self._expected: dict[str, str] = {}
        self._lock = threading.Lock()
        self._opening = threading.Lock()
        self._listeners: list[Listener] = []
        self._closed = threading.Event()
        self._watcher: threading.Thread | None = None
        self._behind = ThreadPoolExecutor(BEHIND_AT_ONCE, "made behind")

    def names(self) -> list[str]:
        """Names of the runs, newest first; a run's name is its folder's."""
        return [folder.name for folder in self.folders()]

    def folders(self) -> list[Path]:
        """Folders of the runs, newest first; none that a link leads to from elsewhere. Of imports
        that go on what is read so far, under the name that their run will have.
        """
        root = self.store.folder
        whole = [f for f in self.store.folders() if f == root or f.resolve().parent == root]
        names = {folder.name for folder in whole}
        return [*(f for f in shown_runs(root) if f.name not in names), *whole]

    def run(self, name: str, wait_s: float = FIRST_INDEX_S) -> Run:
        """The run of that name, indexed and followed from now on; raises UserError, Indexing
        where its first index takes longer.
        """
        return self._open(name, wait_s).run

    def version(self, name: str, wait_s: float = FIRST_INDEX_S) -> int:
        """Goes up whenever the run's index got something new."""
        return self._open(name, wait_s).version

    def catch_up(self, name: str, timeout_s: float) -> bool:
        """Wait until all that the run has written by now can be asked; whether it can."""
        return self._open(name).follower.catch_up(timeout_s)

    def problem(self, name: str) -> str | None:
        """What keeps the run's index from being brought up to date, None: nothing."""
        return self._open(name).follower.problem

    def problems(self) -> list[str]:
        """One sentence for each opened run that cannot be followed."""
        with self._lock:
            opened = list(self._opened.items())
        return [f"{name}: {o.follower.problem}" for name, o in opened if o.follower.problem]

    @property
    def num_open(self) -> int:
        """Runs that are open and followed."""
        return len(self._opened)

    def expect(self, name: str, why: str) -> None:
        """Have those who ask for a run that is not there yet told why, in one sentence."""
        self._expected[name] = why

    def cached(self, name: str, key: Hashable, compute: Callable[[Run], T]) -> T:
        """`compute(run)`, kept until the run's index has news; computed once at a time.

        An interrupted answer is not kept: whoever waited for it computes it himself.
        """
        opened = self._open(name)
        answer: T = self.answers.get(
            (name, opened.run, key),
            lambda: max(opened.version, _coming.get()),
            lambda: compute(opened.run),
        )
        return answer

    def followed(self, name: str, key: Hashable, compute: Callable[[Run], T]) -> T:
        """As `cached`, for what pages ask for again at each piece of news: while many do, it is
        made before the news are told, and all who ask then find it kept.

        `compute` must ask for everything anew: what it closes over may be of an older version.
        """
        watched = self._open(name).watched
        watched.asked(key, compute)
        return self.cached(name, key, watched.timed(key, compute))

    def paced(
        self,
        name: str,
        key: Hashable,
        compute: Callable[[Run, Stop | None], T],
        stop: Stop | None = None,
    ) -> T:
        """As `cached`, for what takes long: it may be older than the news, and is made anew when it
        has rested (app.runs.refresh_policy), behind those who ask. Who was given an old answer
        hears of news then.

        `compute` gets `stop` where who asks has to wait for it.
        """
        opened = self._open(name)
        with self._lock:
            pace = opened.pace(key, compute)
        found = self.answers.newest((name, opened.run, key))
        due = pace.due(found and found[0], opened.news)
        if due is Due.BEHIND:
            self._make_behind(name, opened, key, pace)
        answer: T = (
            found[1] if found and due is not Due.NOW else self._made(name, opened, key, pace, stop)
        )
        return answer

    def _made(
        self, name: str, opened: _Opened, key: Hashable, pace: Pace, stop: Stop | None = None
    ) -> Any:
        return self.answers.get(
            (name, opened.run, key), lambda: opened.news, lambda: pace.timed(opened.run, stop)
        )

    def _make_behind(self, name: str, opened: _Opened, key: Hashable, pace: Pace) -> None:
        with suppress(RuntimeError):  # the server stops
            self._behind.submit(self._made, name, opened, key, pace)

    def recent(self, name: str, key: Hashable, compute: Callable[[Run], T], seconds: float) -> T:
        """As `cached`, for what depends on the time as well: made anew after so many seconds."""

        def dated(run: Run) -> tuple[float, T]:
            return time.monotonic(), compute(run)

        made_s, answer = self.cached(name, key, dated)
        if time.monotonic() - made_s > seconds:
            self.answers.drop((name, self._open(name).run, key))
            _, answer = self.cached(name, key, dated)
        return answer

    def at_hand(self, name: str, key: Hashable) -> object | None:
        """What `followed` would answer without waiting for anything, None: it would have to."""
        opened = self._used(name)
        if opened is None:
            return None
        found = self.answers.kept((name, opened.run, key), opened.version)
        if found is not None:
            opened.watched.asked_again(key)
        return found

    def kept(self, name: str, key: Hashable) -> object | None:
        """What `cached` would answer without computing anything, None: it would have to."""
        opened = self._open(name)
        return self.answers.kept((name, opened.run, key), opened.version)

    def listen(self, listener: Listener) -> Callable[[], None]:
        """Have `listener` called on news of any opened run, and with ALL_RUNS when one has come or
        gone; returns what ends it.
        """
        with self._lock:
            self._listeners.append(listener)
            if self._watcher is None:
                self._watcher = threading.Thread(
                    target=self._watch_runs, name="look for runs", daemon=True
                )
                self._watcher.start()
        return lambda: self._listeners.remove(listener)

    def close(self) -> None:
        """Stop following and close every run, within about CLOSE_S."""
        self._closed.set()
        self._behind.shutdown(wait=False, cancel_futures=True)
        with self._lock:
            opened, self._opened = list(self._opened.values()), OrderedDict()
        for one in opened:
            one.follower.ask_to_stop()
        for one in opened:
            one.follower.join(CLOSE_S)
            with suppress(duckdb.Error):  # a query is under way: it ends with the process
                one.run.close()
        if self._watcher is not None:
            self._watcher.join(CLOSE_S)

    def _open(self, name: str, wait_s: float = FIRST_INDEX_S) -> _Opened:
        found = self._used(name)
        if found is None:
            with self._opening:  # two followers of one run would never agree
                found = self._used(name) or self._open_new(name)
        if not found.follower.wait_ready(wait_s):
            raise Indexing(
                f"{name} is being indexed for the first time, which takes minutes where there are "
                "thousands of ranks; this page opens by itself"
            )
        if found.follower.problem and not found.follower.has_snapshot:
            raise UserError(f"{name} cannot be indexed: {found.follower.problem}")
        return found

    def _used(self, name: str) -> _Opened | None:
        with self._lock:
            if name in self._opened:
                self._opened.move_to_end(name)
            return self._opened.get(name)

    def _open_new(self, name: str) -> _Opened:
        folder = next((f for f in self.folders() if f.name == name), None)
        if self._closed.is_set():
            raise UserError("the server is stopping")
        if folder is None and name in self._expected:
            raise Awaited(self._expected[name])
        if folder is None and any(f.name == name for f in self.store.folders()):
            raise UserError(
                f"{name} is a link that leads out of the folder of runs; serve that folder itself"
            )
        if folder is None:
            raise UserError(f"there is no run {name!r} here; the start page lists the runs")
        opened = _Opened(
            Run(folder), lambda new: self._changed(name, opened, new), self.passes, self.keep
        )
        with self._lock:
            self._opened[name] = opened
            too_many = [self._opened.popitem(last=False)[1] for _ in range(self._surplus())]
        for one in too_many:  # not closed: who still asks it does so, then it is collected
            one.follower.ask_to_stop()
            self._forget(one)
        opened.follower.start()
        return opened

    def _surplus(self) -> int:
        return max(0, len(self._opened) - self._most_open)

    def _forget(self, opened: _Opened, before: int | None = None) -> None:
        def goes(key: Hashable) -> bool:
            is_of_run = isinstance(key, tuple) and key[1] is opened.run
            return is_of_run and (before is None or key[2] not in opened.paces)

        self.answers.forget(goes, before)

    def _prepare(self, name: str, opened: _Opened, coming: int) -> None:
        """Make the answers that people watch, before they are told that there is news."""
        token = _coming.set(coming)
        try:
            for key, compute in opened.watched.due():
                with suppress(UserError):  # whoever asks is told
                    self.cached(name, key, opened.watched.timed(key, compute))
        finally:
            _coming.reset(token)

    def _changed(self, name: str, opened: _Opened, is_new: bool) -> None:
        """Called by the run's follower; not `is_new`: nothing but what is made behind is."""
        coming = opened.version + 1
        opened.news += is_new
        if not opened.follower.gone and not self._closed.is_set():
            self._prepare(name, opened, coming)
        opened.version = coming
        self._forget(opened, before=coming)
        if opened.follower.gone:
            with self._lock:
                if self._opened.get(name) is opened:
                    del self._opened[name]
        self._notify(name, opened.version)

        opened.told_s = time.monotonic()

    def _notify(self, name: str, version: int) -> None:
        for listener in list(self._listeners):
            listener(name, version)

    def _watch_runs(self) -> None:
        """Tell when a run has come or gone, and when what was old can be had anew."""
        known = None
        while not self._closed.wait(LOOK_FOR_RUNS_S):
            with self._lock:
                opened = list(self._opened.items())
            for name, one in opened:
                self._look_after(name, one)
            try:
                names = set(self.names())
            except UserError:  # the folder of runs has gone
                names = set()
            if known is not None and names != known:
                self.runs_version += 1
                self._notify(ALL_RUNS, self.runs_version)
            known = names

    def _look_after(self, name: str, opened: _Opened) -> None:
        """Make anew what is due, and tell of what was, for those who have the old."""
        is_owed = False
        with self._lock:
            paces = list(opened.paces.items())
        for key, pace in paces:
            found = self.answers.newest((name, opened.run, key))
            if found is None:
                continue
            if pace.is_due(found[0]):
                self._make_behind(name, opened, key, pace)
            is_owed |= pace.is_owed(found[0], opened.told_s)
        if is_owed:
            opened.follower.tell_again()
