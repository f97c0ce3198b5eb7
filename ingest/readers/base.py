"""What a reader hands over, and the sink that gets it: the interfaces of an import."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa

from trace_hooks.schema import RankInfo


@dataclass(frozen=True)
class Format:
    """What the rest of rankscope has to know about the files of one format."""

    name: str
    """name of the reader's module; `source` of its runs, `format` of `rankscope info`"""
    title: str
    """in words, for people"""
    is_generic: bool = False
    """its files hold no sign of what wrote them: among files of another format they are left out"""
    accompanies: bool = False
    """its rows are added to the run of a trace that lies there, too"""
    is_previewable: bool = False
    """each file has its rank and rows by itself, so that it can be shown before the others are read
    """
    has_own_clocks: bool = False
    """a file per process, each with its host's clock, which is compared with the others'"""
    layout_from: str = "process groups"
    """what the reader knows a layout from: job, process groups or coordinates"""
    is_operation_trace: bool = False
    """spans are whole operations of micro-batches, as the what-if analysis needs them"""


def same_rank(name: str, rank: int, earlier: str) -> str:
    """The problem that a file has the rank of an earlier one, and is therefore left out."""
    return (
        f"{name}: says it is rank {rank}, as {earlier} does; left out (another run? import its "
        "folder by itself)"
    )


class Sink(Protocol):
    """Where a reader puts what it finds; every method may be called many times, in any order."""

    def add_rows(self, table: str, rank: int, rows: pa.Table) -> None:
        """Rows of one table of the schema, all of one rank."""

    def adopt_rows(self, table: str, rank: int, path: Path) -> None:
        """Rows that lie in a Parquet file already, which is moved away from there."""

    def add_rank(self, info: RankInfo) -> None:
        """What a rank is; a second one of the same rank replaces the first."""

    def add_guess(self, text: str) -> None:
        """Something that is not in the files and the reader decided, in a sentence."""

    def add_problem(self, text: str) -> None:
        """Something that could not be read, with the file's name, in a sentence."""

    def ranks_by_pid(self) -> Mapping[int, int] | None:
        """Rank of each process that the run's trace knows, by its number where that is unique;
        None where the reader itself says which ranks there are.
        """

    def count_events(self, rank: int, num_events: int) -> None:
        """Elements of a file's list of events, where the format has one; rank -1: unknown."""

    def set_clock(self, clock: str) -> None:
        """What times mean: absolute (the default), per_step_relative or unknown."""


class Import(Protocol):
    """Puts together what `read` made of the files of one import."""

    def add_file(self, file: Any) -> None:
        """What `read` made of one file; files come in their order."""

    def finish(self) -> None:
        """All files were added."""
