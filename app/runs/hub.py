"""The runs of a server: opened once, kept indexed while they grow, closed when too many are open.

One Hub per server. Everything here may be called from many threads. A run has a `version` that goes
up with each piece of news; listeners are notified of it. Answers about runs: `Hub.cache`.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

import duckdb

from app.runs.cache import RunCache
from app.runs.index_follower import Passes
from app.runs.open_run import OpenRun
from ingest.errors import UserError
from ingest.imports.preview import shown_runs
from ingest.index.retention import KEEP_ALL, Keep
from ingest.run import Run, RunStore

MOST_OPEN = 32
"""Runs kept open and followed; the one asked for least recently is closed."""
FIRST_INDEX_S = 3.0
"""How long a request waits for the first index of a run; the live socket announces it."""
LOOK_FOR_RUNS_S = 1.0
CLOSE_S = 1.5
"""What followers get to finish a pass when the server stops; a pass that is cut short is repeated
from the files."""
ALL_RUNS = ""
"""The run that a listener gets when the list of runs has changed."""

Listener = Callable[[str, int], None]
"""Called with (run, version) from a thread of the hub."""


class Awaited(UserError):
    """A run that is not there yet and will be."""


class Indexing(Awaited):
    """A run that is there, and whose first index is being built."""


class Hub:
    """The runs below one folder, or one run folder; raises UserError where there is none.

    `keep`: what content of them may stay.
    """

    read_only = ""
    """Why nothing may be written into the runs, one sentence; empty: it may."""

    def __init__(self, runs: Path, most_open: int = MOST_OPEN, keep: Keep = KEEP_ALL) -> None:
        self.keep = keep
        self.store = RunStore(Path(runs).resolve() if Path(runs).exists() else runs)
        self.passes = Passes()
        self.cache = RunCache(self._open, self._used)
        self.runs_version = 0
        """goes up whenever a run has come or gone"""
        self._most_open = most_open
        self._opened: OrderedDict[str, OpenRun] = OrderedDict()
        self._expected: dict[str, str] = {}
        self._lock = threading.Lock()
        self._opening = threading.Lock()
        self._listeners: list[Listener] = []
        self._closed = threading.Event()
        self._watcher: threading.Thread | None = None

    def names(self) -> list[str]:
        """Names of the runs, newest first; a run's name is its folder's."""
        return [folder.name for folder in self.folders()]

    def folders(self) -> list[Path]:
        """Folders of the runs, newest first; none that a link leads to from elsewhere. Of imports
        under way what is read so far, under the name that their run will have.
        """
        root = self.store.folder
        whole = [f for f in self.store.folders() if f == root or f.resolve().parent == root]
        names = {folder.name for folder in whole}
        return [*(f for f in shown_runs(root) if f.name not in names), *whole]

    def elsewhere(self) -> Mapping[str, int]:
        """Runs of which there is not all here, and when each was stored, Unix ns."""
        return {}

    def run(self, name: str, wait_s: float | None = None) -> Run:
        """The run of that name, indexed and followed from now on; raises UserError, Indexing
        where its first index takes longer.
        """
        return self._open(name, wait_s).run

    def version(self, name: str, wait_s: float | None = None) -> int:
        """Goes up with each piece of news about the run."""
        return self._open(name, wait_s).version

    def catch_up(self, name: str, timeout_s: float) -> bool:
        """Wait until all that the run has written by now is indexed; whether it is."""
        return self._open(name).follower.catch_up(timeout_s)

    def problem(self, name: str) -> str | None:
        """What keeps the run's index from being brought up to date, None: nothing."""
        return self._open(name).follower.problem

    def look(self, name: str, state: str) -> None:
        """A page shows the run in this state: ask its writers to publish often."""
        opened = self._used(name)
        if opened is not None:
            opened.viewers.look(state)

    def problems(self) -> list[str]:
        """One sentence for each opened run that cannot be followed."""
        opened = self._all_open()
        return [f"{name}: {o.follower.problem}" for name, o in opened if o.follower.problem]

    @property
    def num_open(self) -> int:
        """Runs that are open and followed."""
        return len(self._opened)

    def expect(self, name: str, why: str) -> None:
        """Answer requests for a run that is not there yet with this sentence."""
        self._expected[name] = why

    def listen(self, listener: Listener) -> Callable[[], None]:
        """Have `listener` called on news of any opened run, and with ALL_RUNS when one has come or
        gone; returns what ends it.
        """
        with self._lock:
            self._listeners.append(listener)
            self._watch()
        return lambda: self._listeners.remove(listener)

    def close(self) -> None:
        """Stop following and close every run, within about CLOSE_S."""
        self._closed.set()
        self.cache.close()
        with self._lock:
            closing, self._opened = list(self._opened.values()), OrderedDict()
        for opened in closing:
            opened.follower.ask_to_stop()
        for opened in closing:
            opened.follower.join(CLOSE_S)
            with suppress(duckdb.Error):  # a query is under way: it ends with the process
                opened.run.close()
        if self._watcher is not None:
            self._watcher.join(CLOSE_S)

    def _open(self, name: str, wait_s: float | None = None) -> OpenRun:
        opened = self._used(name)
        if opened is None:
            with self._opening:  # two followers of one run would never agree
                opened = self._used(name) or self._open_new(name)
        if not opened.follower.wait_ready(FIRST_INDEX_S if wait_s is None else wait_s):
            raise Indexing(
                f"{name} is being indexed for the first time, which takes minutes where there are "
                "thousands of ranks; this page opens automatically"
            )
        if opened.follower.problem and not opened.follower.has_snapshot:
            raise UserError(f"{name} cannot be indexed: {opened.follower.problem}")
        return opened

    def _used(self, name: str) -> OpenRun | None:
        """The run of that name where it is open; it is then the one asked for last."""
        with self._lock:
            if name in self._opened:
                self._opened.move_to_end(name)
            return self._opened.get(name)

    def _open_new(self, name: str) -> OpenRun:
        opened = OpenRun(
            Run(self._folder_of(name)),
            lambda is_new: self._on_news(name, opened, is_new),
            self.passes,
            self.keep,
        )
        with self._lock:
            self._opened[name] = opened
            self._watch()  # who only asks now and then gets newer answers, too
            surplus = range(max(0, len(self._opened) - self._most_open))
            evicted = [self._opened.popitem(last=False)[1] for _ in surplus]
        for other in evicted:  # not closed: whoever still reads it goes on, then it is collected
            other.follower.ask_to_stop()
            self.cache.forget(other)
        opened.follower.start()
        return opened

    def _folder_of(self, name: str) -> Path:
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
        return folder

    def _on_news(self, name: str, opened: OpenRun, is_new: bool) -> None:
        """Called by the run's follower; not `is_new`: only answers in the cache are newer."""
        begun_s = time.monotonic()
        is_gone, upcoming = opened.follower.gone, opened.version + 1
        opened.index_version += is_new
        if not is_gone and not self._closed.is_set():
            self.cache.prefetch(opened, upcoming)
        opened.version = upcoming
        self.cache.drop_outdated(opened)
        if is_gone:
            self.cache.forget(opened)
            with self._lock:
                if self._opened.get(name) is opened:
                    del self._opened[name]
        self._notify(name, opened.version)
        opened.news_s = begun_s  # not when it ends: what is computed meanwhile is not in it

    def _notify(self, name: str, version: int) -> None:
        for listener in list(self._listeners):
            listener(name, version)

    def _watch(self) -> None:
        """Start the thread that watches, where there is none yet; called under the lock.

        What is there now is looked up first: runs that come from now on are news.
        """
        if self._watcher is None:
            self._watcher = threading.Thread(
                target=self._watch_runs, args=(self._found(),), name="look for runs", daemon=True
            )
            self._watcher.start()

    def _all_open(self) -> list[tuple[str, OpenRun]]:
        with self._lock:
            return list(self._opened.items())

    def _found(self) -> set[str]:
        """Names of the runs that are there, none where the folder of runs has gone."""
        try:
            return set(self.names())
        except UserError:
            return set()

    def _watch_runs(self, known: set[str]) -> None:
        """Notify when a run has come or gone, or a newer answer can be had than was served."""
        while not self._closed.wait(LOOK_FOR_RUNS_S):
            for _, opened in self._all_open():
                if self.cache.revalidate(opened):
                    opened.follower.announce_again()
            names = self._found()
            if names != known:
                self.runs_version += 1
                self._notify(ALL_RUNS, self.runs_version)
            known = names
