"""Stopping a query from another thread."""

from __future__ import annotations

import threading
from contextlib import suppress
from typing import Protocol

import duckdb

from ingest.errors import UserError


class Interrupted(UserError):
    """A query was stopped, by its time limit or by its caller."""


class Interruptible(Protocol):
    """A query under way."""

    def interrupt(self) -> None:
        """Stop it, from another thread."""


class Stop:
    """A handle with which another thread stops a query."""

    def __init__(self) -> None:
        self.called = False
        self._query: Interruptible | None = None
        self._lock = threading.Lock()

    def attach(self, query: Interruptible) -> None:
        """Called by the query when it starts."""
        with self._lock:
            self._query = query
            if self.called:
                query.interrupt()

    def detach(self) -> None:
        """Called by the query when it has ended: what it ran on is not interrupted from now on."""
        with self._lock:
            self._query = None

    def __call__(self) -> None:
        """Stop the query, now or as soon as it starts."""
        with self._lock:
            self.called = True
            if self._query is not None:
                interrupt(self._query)


def interrupt(query: Interruptible) -> None:
    """Stop a query that may have ended meanwhile."""
    with suppress(duckdb.ConnectionException):
        query.interrupt()
