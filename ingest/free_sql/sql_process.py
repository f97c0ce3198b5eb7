"""The server's side: a statement is handed to its process, its rows are read, the process may end.

The process of one statement is forked by the one that holds the run's snapshot (holder), which is
started when the first statement comes, or before (`get_ready`), and ends some minutes after the
last.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path

import pyarrow as pa

from ingest.errors import UserError
from ingest.free_sql import wire
from ingest.free_sql.allow_list import check_text
from ingest.free_sql.holder_handle import HolderHandle
from ingest.free_sql.statement_handle import StatementHandle
from ingest.stopping import Interrupted, Stop
from ingest.time_limits import TimeLimits

_MOST_RESTING = 8
"""Processes of one run that wait for a further statement of their session."""
_REMEDY = "ask for fewer ranks or steps"
_ENDED = (
    "the query failed: its process ended before its answer did, mostly because it needs more "
    f"memory than it may use; {_REMEDY}"
)
_limits = TimeLimits()


_Kind = tuple[str | None, Path, float | None]
"""Session, snapshot and time limit: what statements that share a process have in common."""


class SqlProcess:
    """Runs statements of strangers over one run; safe to use from many threads."""

    def __init__(
        self, run_folder: Path, index_folder: Path, with_content: bool = False,
        layers: frozenset[str] = wire.LAYERS,
    ) -> None:  # fmt: skip
        """`layers`: which of them hold; fewer than all is for tests that show that one suffices."""
        self._folders = run_folder.resolve(), index_folder.resolve()
        self._with_content = with_content
        self._layers = layers
        self._lock = threading.Lock()
        self._holder: HolderHandle | None = None
        self._resting: OrderedDict[_Kind, list[StatementHandle]] = OrderedDict()

    @contextmanager
    def reading(
        self, text: str, snapshot: Path, limit_s: float | None, stop: Stop | None = None,
        session: str | None = None,
    ) -> Iterator[pa.RecordBatchReader]:  # fmt: skip
        """Rows of one SELECT in batches, computed while they are read.

        Cheap statements of one `session` follow each other in one process; None shares none.
        Raises UserError (what is wrong with it), Interrupted (its time is over, or `stop`).
        """
        if "tree" in self._layers:
            check_text(text)
        kind = (session, snapshot, limit_s)
        statement = self._rested(kind) or self._statement(snapshot)
        over = Stop()
        stops = [over, stop] if stop is not None else [over]
        ends = partial(_ends_as_sentence, over, limit_s, stop)
        try:
            with _limits.limit(limit_s, over):
                with ends():
                    try:
                        stream = statement.begin(text, limit_s, stops)
                    except (wire.Ended, OSError):
                        if not statement.has_rested or any(one.called for one in stops):
                            raise
                        statement.end()  # it has ended while it waited
                        statement = self._statement(snapshot)
                        stream = statement.begin(text, limit_s, stops)
                batches = _checked(stream, statement, ends)
                yield pa.RecordBatchReader.from_batches(stream.schema, batches)
        finally:
            if session is not None and statement.may_follow:
                self._rest(kind, statement)
            else:
                statement.end()

    def _rested(self, kind: _Kind) -> StatementHandle | None:
        """A process that has answered a statement of this kind before, and lives."""
        with self._lock:
            kept = self._resting.get(kind)
            statement = kept.pop() if kept else None
        if statement is None:
            return None
        if statement.is_ready_again():
            return statement
        statement.end()
        return None

    def _rest(self, kind: _Kind, statement: StatementHandle) -> None:
        """Keep a process for the next statement of its kind; those of older ones end."""
        statement.rest()
        with self._lock:
            self._resting.setdefault(kind, []).append(statement)
            self._resting.move_to_end(kind)
            surplus = []
            while sum(map(len, self._resting.values())) > _MOST_RESTING:
                oldest = next(iter(self._resting))
                surplus += self._resting.pop(oldest)[:]
        for one in surplus:
            one.end()

    def get_ready(self, snapshot: Path) -> None:
        """Start what the first statement would wait for."""
        self._statement(snapshot).end()

    def _statement(self, snapshot: Path) -> StatementHandle:
        with self._lock:
            try:
                return self._held().statement(snapshot)
            except (OSError, wire.Ended, ValueError):  # it ended while nobody asked
                self._close_holder()
            try:
                return self._held().statement(snapshot)
            except (OSError, wire.Ended, ValueError) as error:
                self._close_holder()
                raise UserError(
                    "the process that runs SQL does not start; the server's output says why"
                ) from error

    def _held(self) -> HolderHandle:
        if self._holder is None or self._holder.is_worn:
            if self._holder is not None:
                self._holder.retire()
            self._holder = HolderHandle(*self._folders, self._with_content, self._layers)
        return self._holder

    def _close_holder(self) -> None:
        if self._holder is not None:
            self._holder.close()
            self._holder = None

    def close(self) -> None:
        """End all of its processes."""
        with self._lock:
            resting = [one for kept in self._resting.values() for one in kept]
            self._resting.clear()
            self._close_holder()
        for one in resting:
            one.end()


@contextmanager
def _ends_as_sentence(over: Stop, limit_s: float | None, stop: Stop | None) -> Iterator[None]:
    """Say why a process ended before its answer did."""
    try:
        yield
    except (wire.Ended, OSError, ValueError, pa.ArrowException) as error:
        if stop is not None and stop.called:
            why: UserError = Interrupted(f"the query was interrupted; {_REMEDY}")
        elif over.called:
            why = Interrupted(f"the query took longer than {limit_s} s; {_REMEDY}")
        else:
            why = UserError(_ENDED)
        raise why from error


def _checked(
    stream: pa.RecordBatchReader,
    statement: StatementHandle,
    ends: Callable[[], AbstractContextManager[None]],
) -> Iterator[pa.RecordBatch]:
    """The batches; one that is not what it says raises before anybody reads it."""
    while True:
        with ends():
            try:
                batch = stream.read_next_batch()
            except StopIteration:
                statement.finish()
                return
            batch.validate(full=True)
        yield batch
