"""The runs of a server: opened once, kept indexed while they grow, and the answers made of them.

One Hub per server. Everything here may be called from many threads. A run has a `version` that goes
up whenever its index got something new; answers are kept per (run, version).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from ingest.errors import UserError
from ingest.indexer import Busy, Indexer
from ingest.store import Run, RunStore

T = TypeVar("T")

LOOK_EVERY_S = 0.25
"""How often the folder of a run that is written is looked at."""
_KEPT_ANSWERS = 256

Listener = Callable[[str, int], None]
"""Called with (run, version) from the run's own thread."""


@dataclass
class _Opened:
    run: Run
    version: int = 0
    thread: threading.Thread | None = None
    stop: threading.Event = field(default_factory=threading.Event)
    answers: dict[Hashable, tuple[int, Any]] = field(default_factory=dict)
    locks: dict[Hashable, threading.Lock] = field(default_factory=dict)


class Hub:
    """The runs below one folder."""

    def __init__(self, runs: Path) -> None:
        self.store = RunStore(runs)
        self._opened: dict[str, _Opened] = {}
        self._lock = threading.Lock()
        self._opening: dict[str, threading.Lock] = {}
        self._listeners: list[Listener] = []

    def names(self) -> list[str]:
        """Names of the runs, newest first; a run's name is its folder's."""
        return [folder.name for folder in self.store.folders()]

    def run(self, name: str) -> Run:
        """The run of that name, indexed and followed from now on; raises UserError."""
        return self._open(name).run

    def version(self, name: str) -> int:
        """Goes up whenever the run's index got something new."""
        return self._open(name).version

    def cached(self, name: str, key: Hashable, compute: Callable[[Run], T]) -> T:
        """`compute(run)`, kept until the run's index has news; computed once at a time."""
        opened = self._open(name)
        with self._lock:
            lock = opened.locks.setdefault(key, threading.Lock())
        with lock:
            version = opened.version
            held = opened.answers.get(key)
            if held is not None and held[0] == version:
                return held[1]  # type: ignore[no-any-return]
            answer = compute(opened.run)
            with self._lock:
                opened.answers[key] = (version, answer)
                while len(opened.answers) > _KEPT_ANSWERS:
                    opened.answers.pop(next(iter(opened.answers)))
            return answer

    def listen(self, listener: Listener) -> Callable[[], None]:
        """Have `listener` called on news of any opened run; returns what ends it."""
        with self._lock:
            self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    def close(self) -> None:
        """Stop following and close every run."""
        with self._lock:
            opened, self._opened = list(self._opened.values()), {}
        for one in opened:
            one.stop.set()
        for one in opened:
            if one.thread is not None:
                one.thread.join()
            one.run.close()

    def _open(self, name: str) -> _Opened:
        with self._lock:
            found = self._opened.get(name)
        if found is not None:
            return found
        with self._opening.setdefault(name, threading.Lock()):
            # a second opening at once would find the index busy and no snapshot yet
            return self._opened.get(name) or self._open_new(name)

    def _open_new(self, name: str) -> _Opened:
        folder = next((f for f in self.store.folders() if f.name == name), None)
        if folder is None:
            raise UserError(f"there is no run {name!r} here; the start page lists the runs")
        run = Run(folder)
        run.refresh()
        opened = _Opened(run)
        with self._lock:
            self._opened[name] = opened
        if run.info["source"] == "hooks":
            opened.thread = threading.Thread(
                target=self._follow, args=(name, opened), name=f"follow {name}", daemon=True
            )
            opened.thread.start()
        return opened

    def _follow(self, name: str, opened: _Opened) -> None:
        while not opened.stop.wait(LOOK_EVERY_S):
            try:
                with Indexer(opened.run.folder) as indexer:
                    while not opened.stop.wait(LOOK_EVERY_S):
                        if indexer.refresh().published:
                            self._changed(name, opened)
            except (Busy, UserError):
                continue

    def _changed(self, name: str, opened: _Opened) -> None:
        opened.version += 1
        for listener in list(self._listeners):
            listener(name, opened.version)
