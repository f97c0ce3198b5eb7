"""The cache of answers about runs: requests, the live socket and diagnosis all ask here.

`get` computes an answer or serves a stored one, as its policy says (app.runs.policies has them, and
a table of all cached answers). The hub calls `prefetch`, `drop_outdated` and `revalidate` when a
run has news, and `forget` when it is closed.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from contextvars import ContextVar
from typing import Any, TypeVar

from app.runs.answer_store import MOST_BYTES, AnswerStore, Cached
from app.runs.open_run import OpenRun
from app.runs.policies import FRESH, PREFETCH, STALE_WHILE_REVALIDATE, Policy
from app.runs.prefetch import Compute
from app.runs.revalidation import Decision, Revalidation
from ingest.errors import UserError
from ingest.stopping import Stop

T = TypeVar("T")

MOST_IN_BACKGROUND = 2
"""Answers that are computed at once in the background."""

_upcoming: ContextVar[int] = ContextVar("upcoming", default=0)
"""The version that a follower's thread prefetches answers about, before it is announced."""


class RunCache:
    """Answers about the runs of one hub; safe from many threads.

    `open_run` opens a run where needed and raises UserError; `find_open_run` waits for nothing.
    """

    def __init__(
        self,
        open_run: Callable[[str], OpenRun],
        find_open_run: Callable[[str], OpenRun | None],
        most_bytes: int = MOST_BYTES,
    ) -> None:
        self._open_run = open_run
        self._find_open_run = find_open_run
        self._store = AnswerStore(most_bytes)
        self._background = ThreadPoolExecutor(MOST_IN_BACKGROUND, "revalidate")

    @property
    def num_bytes(self) -> int:
        """Bytes of all stored answers."""
        return self._store.num_bytes

    def __len__(self) -> int:
        return len(self._store)

    def get(
        self,
        name: str,
        key: Hashable,
        compute: Compute[T],
        policy: Policy = FRESH,
        stop: Stop | None = None,
    ) -> T:
        """`compute(run, stop)` about the run of that name, or a stored answer that the policy
        serves; computed once at a time. Raises UserError, Interrupted.

        `compute` gets `stop` where the caller waits for it and None in the background. Then it must
        read everything again: what it closes over may be about an older version.
        """
        return self.fetch(name, key, compute, policy, stop).value

    def fetch(
        self,
        name: str,
        key: Hashable,
        compute: Compute[T],
        policy: Policy = FRESH,
        stop: Stop | None = None,
    ) -> Cached[T]:
        """As `get`, with the version that the answer is about."""
        opened = self._open_run(name)
        if policy is STALE_WHILE_REVALIDATE:
            return self._stale_while_revalidate(opened, key, compute, stop)
        if policy is PREFETCH:
            compute = opened.prefetch.requested(key, compute)
        return self._newest(opened, key, compute, policy, stop)

    def peek(self, name: str, key: Hashable) -> Any:
        """What is stored about the newest version of an open run, else None; waits for nothing."""
        opened = self._find_open_run(name)
        if opened is None:
            return None
        stored = self._store.newest((opened.run, key))
        if stored is None or stored.version < opened.version:
            return None
        opened.prefetch.served(key)
        return stored.value

    def has_any(self, name: str, key: Hashable) -> bool:
        """Whether an answer about an open run is stored, of whatever version; waits for nothing."""
        opened = self._find_open_run(name)
        return opened is not None and self._store.newest((opened.run, key)) is not None

    def prefetch(self, opened: OpenRun, upcoming: int) -> None:
        """Compute what many ask for, about a version that nobody has been notified of yet."""
        token = _upcoming.set(upcoming)
        try:
            for key, compute in opened.prefetch.due():
                with suppress(UserError):  # the next request gets it
                    self._newest(opened, key, compute, PREFETCH, None)
        finally:
            _upcoming.reset(token)

    def drop_outdated(self, opened: OpenRun) -> None:
        """Drop what no policy serves any more, now that the run has a new version."""
        self._store.drop(lambda key: _is_about(key, opened), outdated_by=opened.version)

    def forget(self, opened: OpenRun) -> None:
        """Drop all answers about a run."""
        self._store.drop(lambda key: _is_about(key, opened))

    def revalidate(self, opened: OpenRun) -> bool:
        """Compute in the background what is due; whether listeners should be notified of an answer
        that is newer than what somebody was served.
        """
        is_unannounced = False
        for key, revalidation in opened.revalidations.items():
            stored = self._store.newest((opened.run, key))
            if stored is None:
                continue
            if revalidation.is_due(stored.version):
                self._in_background(opened, key, revalidation)
            is_unannounced |= revalidation.is_unannounced(stored.version, opened.news_s)
        return is_unannounced

    def close(self) -> None:
        """Compute nothing more in the background."""
        self._background.shutdown(wait=False, cancel_futures=True)

    def _newest(
        self,
        opened: OpenRun,
        key: Hashable,
        compute: Compute[T],
        policy: Policy,
        stop: Stop | None,
    ) -> Cached[T]:
        return self._store.get(
            (opened.run, key),
            lambda: max(opened.version, _upcoming.get()),
            lambda: compute(opened.run, stop),
            policy,
        )

    def _stale_while_revalidate(
        self, opened: OpenRun, key: Hashable, compute: Compute[T], stop: Stop | None
    ) -> Cached[T]:
        revalidation = opened.revalidations.of(key, compute)
        stored = self._store.newest((opened.run, key))
        version = None if stored is None else stored.version
        decision = revalidation.decide(version, opened.index_version)
        if decision is Decision.SERVE_AND_REVALIDATE:
            self._in_background(opened, key, revalidation)
        if stored is None or decision is Decision.COMPUTE:
            return self._revalidated(opened, key, revalidation, stop)
        return stored

    def _revalidated(
        self,
        opened: OpenRun,
        key: Hashable,
        revalidation: Revalidation,
        stop: Stop | None = None,
    ) -> Cached[Any]:
        return self._store.get(
            (opened.run, key),
            lambda: opened.index_version,
            lambda: revalidation.compute(opened.run, stop),
            STALE_WHILE_REVALIDATE,
        )

    def _in_background(self, opened: OpenRun, key: Hashable, revalidation: Revalidation) -> None:
        with suppress(RuntimeError):  # the server is stopping
            self._background.submit(self._revalidated, opened, key, revalidation)


def _is_about(key: Hashable, opened: OpenRun) -> bool:
    return isinstance(key, tuple) and key[0] is opened.run
