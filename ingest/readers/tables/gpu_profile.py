"""Profiles of GPU work in SQLite databases: what reading them has in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import Any

from ingest.limits import limits
from ingest.readers.parsing.sources import Source
from ingest.readers.parsing.sqlite_file import MAGIC, Database, Unreadable
from ingest.readers.parsing.trace_events import MAX_NS
from ingest.readers.tables.process_ranks import Processes
from ingest.readers.tables.staged_rows import StagedRows
from ingest.readers.tables.whole_files import TooLarge, on_disk


class Profile(ABC):
    """One database, read table by table; a damaged table costs what stands behind the damage."""

    def __init__(self, database: Database, processes: Processes) -> None:
        self.processes = processes
        self.problems: list[str] = [database.damage] if database.damage else []
        self._database = database
        self._texts: dict[int, str] = {}

    @abstractmethod
    def read(self) -> None:
        """Read all of it."""

    def rows(self, table: str, *columns: str) -> Iterator[tuple[Any, ...]]:
        """Some columns of every row; none where the table is not there."""
        if not self._database.has(table):
            return
        try:
            if lacks := self._database.lacks(table, columns):
                self.problems.append(lacks)
            yield from self._database.rows(table, columns)
        except Unreadable as error:
            self.problems.append(str(error))

    def read_texts(self, table: str, *columns: str) -> bool:
        """Read what `text` knows, from the columns of number and text; whether there is any."""
        for number, text in self.rows(table, *columns):
            if isinstance(number, int) and len(self._texts) < limits().max_rows:
                self._texts[number] = str(text)
        return bool(self._texts)

    def text(self, number: object) -> str:
        """The text of a number; empty without one."""
        return self._texts.get(number, "") if isinstance(number, int) else ""

    def tell_bad_rows(self) -> None:
        """Report how many rows had no usable times."""
        bad = self.processes.num_bad
        bad += sum(self.processes.of(p).num_refused for p in self.processes.ranks())
        if bad:
            self.problems.append(f"{bad:,} rows without usable times left out")


def is_database(
    source: Source, in_head: Callable[[bytes], bool], in_tables: Callable[[Database], bool]
) -> bool:
    """Whether it is a SQLite database of a format, by its first bytes or its tables."""
    if not source.head.startswith(MAGIC):
        return False
    if in_head(source.head):
        return True
    if source.path is None:
        return False
    try:
        with Database(source.path) as database:
            return in_tables(database)
    except Unreadable:
        return False


def read_profile(
    source: Source, staged: StagedRows, kind: type[Profile], nothing: str
) -> Processes | None:
    """Read one database; None, with a problem, where it cannot be read or is empty."""
    processes = Processes(source.name)
    try:
        with on_disk(source) as path, Database(path) as database:
            profile = kind(database, processes)
            profile.read()
    except (Unreadable, TooLarge) as error:
        staged.add_problem(f"{source.name}: {error}")
        return None
    for problem in (*source.damages(), *profile.problems):
        staged.add_problem(f"{source.name}: {problem}")
    if not processes.ranks():
        staged.add_problem(f"{source.name}: holds {nothing}")
        return None
    return processes


def are_times(start_ns: object, end_ns: object) -> bool:
    """Whether both are times a span can have."""
    if type(start_ns) is not int or type(end_ns) is not int:
        return False
    return abs(start_ns) < MAX_NS and abs(end_ns) < MAX_NS
