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
from ingest.query.query_errors import PROCESS_ENDED, interrupted
from ingest.query.query_timeouts import TimeLimits
from ingest.stopping import Stop

_MOST_RESTING = 8
"""Processes of one run that wait for a further statement of their session."""
_GONE = (wire.Ended, OSError, ValueError)
"""What is raised where a process has ended, or does not answer."""
_limits = TimeLimits()

_Kind = tuple[str | None, Path, float | None]
"""Session, snapshot and time limit: what statements that share a process have in common."""


class SqlProcess:
    """Runs statements of strangers over one run; safe to use from many threads."""

    def __init__(
        self,
        run_folder: Path,
        index_folder: Path,
        with_content: bool = False,
        layers: frozenset[str] = wire.LAYERS,
    ) -> None:
        """`layers`: which of them hold; fewer than all is for tests that show that one suffices."""
        self._folders = run_folder.resolve(), index_folder.resolve()
        self._with_content = with_content
        self._layers = layers
        self._lock = threading.Lock()
        self._holder: HolderHandle | None = None
        self._resting: OrderedDict[_Kind, list[StatementHandle]] = OrderedDict()
        self._is_closed = False

    @contextmanager
    def reading(
        self,
        text: str,
        snapshot: Path,
        limit_s: float | None,
        stop: Stop | None = None,
        session: str | None = None,
    ) -> Iterator[pa.RecordBatchReader]:
        """Rows of one SELECT in batches, computed while they are read.

        Cheap statements of one `session` follow each other in one process; None shares none.
        Raises UserError (what is wrong with it), Interrupted (its time is over, or `stop`).
        """
        if "tree" in self._layers:
            check_text(text)
        kind = (session, snapshot, limit_s)
        over = Stop()
        stops = _Stops(over, stop)
        ends = partial(_ends_as_sentence, over, limit_s, stop)
        with _limits.limit(limit_s, over):
            with ends():
                statement, stream = self._begun(kind, text, stops)
            try:
                batches = _validated(stream, statement, ends)
                yield pa.RecordBatchReader.from_batches(stream.schema, batches)
            finally:
                stops.detach()
                self._finished(kind, statement)

    def _begun(
        self, kind: _Kind, text: str, stops: _Stops
    ) -> tuple[StatementHandle, pa.RecordBatchReader]:
        """A process that computes the statement, and its rows."""
        rested = self._rested(kind)
        if rested is not None:
            try:
                return rested, _begin(rested, kind, text, stops)
            except (wire.Ended, OSError):  # it has ended while it waited
                if stops.are_called():
                    raise
        statement = self._statement(kind[1], stops.are_called)
        return statement, _begin(statement, kind, text, stops)

    def _finished(self, kind: _Kind, statement: StatementHandle) -> None:
        session, *_ = kind
        if session is not None and statement.may_follow:
            self._rest(kind, statement)
        else:
            statement.end()

    def _rested(self, kind: _Kind) -> StatementHandle | None:
        """A process that has answered a statement of this kind before, and lives."""
        with self._lock:
            kept = self._resting.get(kind)
            if not kept:
                return None
            statement = kept.pop()
            if not kept:
                del self._resting[kind]
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
            surplus = self._resting_beyond(0 if self._is_closed else _MOST_RESTING)
        for holder in surplus:
            holder.end()

    def _resting_beyond(self, most: int) -> list[StatementHandle]:
        """Take out those of the oldest kinds until no more than this many rest."""
        surplus = []
        while sum(map(len, self._resting.values())) > most:
            _, oldest = self._resting.popitem(last=False)
            surplus += oldest
        return surplus

    def get_ready(self, snapshot: Path) -> None:
        """Start what the first statement would wait for."""
        self._statement(snapshot, lambda: False).end()

    def _statement(self, snapshot: Path, is_over: Callable[[], bool]) -> StatementHandle:
        try:
            return self._handed_out(snapshot, is_over)
        except _GONE:  # it ended while there were no requests
            if is_over():
                raise
        try:
            return self._handed_out(snapshot, is_over)
        except _GONE as error:
            if is_over():
                raise
            raise UserError(
                "the process that runs SQL does not start; the server's output has the reason"
            ) from error

    def _handed_out(self, snapshot: Path, is_over: Callable[[], bool]) -> StatementHandle:
        holder = self._held()
        try:
            return holder.statement(snapshot, is_over)
        except _GONE:
            if not is_over():
                self._close_holder(holder)
            raise

    def _held(self) -> HolderHandle:
        with self._lock:
            if self._is_closed:
                raise UserError("the run was closed; open it again")
            if self._holder is None or self._holder.is_worn:
                if self._holder is not None:
                    self._holder.retire()
                self._holder = HolderHandle(*self._folders, self._with_content, self._layers)
            return self._holder

    def _close_holder(self, holder: HolderHandle) -> None:
        """Close one that does not answer; the next statement starts another."""
        with self._lock:
            if self._holder is holder:
                self._holder = None
        holder.close()

    def close(self) -> None:
        """End all of its processes; statements that wait for one get a sentence."""
        with self._lock:
            self._is_closed = True
            holder, self._holder = self._holder, None
            resting = self._resting_beyond(0)
        if holder is not None:
            holder.close()
        for idle in resting:
            idle.end()


class _Stops:
    """What may end a statement: its time limit and its caller."""

    def __init__(self, over: Stop, stop: Stop | None) -> None:
        self.all = [over] if stop is None else [over, stop]

    def are_called(self) -> bool:
        """Whether one of them was."""
        return any(stop.called for stop in self.all)

    def detach(self) -> None:
        """From now on none of them ends a later statement."""
        for stop in self.all:
            stop.detach()


def _begin(
    statement: StatementHandle, kind: _Kind, text: str, stops: _Stops
) -> pa.RecordBatchReader:
    """Rows of the statement; the process ends where it gives none."""
    _, _, limit_s = kind
    try:
        return statement.begin(text, limit_s, stops.all)
    except BaseException:
        stops.detach()
        statement.end()
        raise


@contextmanager
def _ends_as_sentence(over: Stop, limit_s: float | None, stop: Stop | None) -> Iterator[None]:
    """Report why a process ended before its answer did."""
    try:
        yield
    except (*_GONE, pa.ArrowException) as error:
        if over.called or (stop is not None and stop.called):
            raise interrupted(limit_s, stop) from error
        raise UserError(PROCESS_ENDED) from error


def _validated(
    stream: pa.RecordBatchReader,
    statement: StatementHandle,
    ends: Callable[[], AbstractContextManager[None]],
) -> Iterator[pa.RecordBatch]:
    """The batches; a malformed one raises before anything reads it."""
    while True:
        with ends():
            try:
                batch = stream.read_next_batch()
            except StopIteration:
                statement.finish()
                return
            batch.validate(full=True)
        yield batch
