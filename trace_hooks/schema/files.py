"""The JSON files of a run folder, and how the files of a rank are named."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NotRequired, TypedDict

from trace_hooks.schema.tables import TABLES


class RunInfo(TypedDict):
    """run.json: what the run is. Written once, by rank 0 of the first attempt or by an import."""

    schema: str
    run: str
    created_ns: int
    """t0: browser and URLs carry ns relative to it"""
    clock: str
    """absolute | per_step_relative | unknown"""
    source: str
    """hooks | synthetic | a reader's name"""
    framework: str
    versions: dict[str, str]
    model: NotRequired[dict[str, Any]]
    provenance: NotRequired[list[str]]
    guesses: NotRequired[list[str]]
    problems: NotRequired[list[str]]
    events_per_rank: NotRequired[dict[str, int]]
    """elements of each imported file's traceEvents, where the format has them"""
    importing: NotRequired[bool]
    """files are still being read: ranks are missing, clocks are not compared yet"""
    truth: NotRequired[dict[str, Any]]
    """what was injected, in recorded samples and synthetic runs"""


class LayoutInfo(TypedDict):
    """layout.json: the layout as a user corrected it by hand; the recorded one stays as it is."""

    schema: str
    layout: dict[str, Any]
    """ParallelLayout.to_json()"""
    corrected_ns: int
    """when, Unix ns"""


class RankInfo(TypedDict):
    """ranks/ATTEMPT-RANK.json: what one rank of one attempt is."""

    schema: str
    attempt: int
    rank: int
    world_size: int
    host: str
    pid: int
    local_rank: int
    device: str
    device_uuid: str
    started_ns: int
    layout: dict[str, Any] | None
    """ParallelLayout.to_json(), None unknown"""
    coords: dict[str, int] | None
    end: dict[str, Any] | None
    """{"ts_ns", "status": finished | failed | stopped, "error"}; None while it runs or if killed"""
    hooks: dict[str, Any]
    """level, sources, errors per hook, dropped rows"""


_SEGMENT = re.compile(r"([a-z_]+)-(\d{4,})-(\d{5,})-(\d{8,})\.parquet")


@dataclass(frozen=True)
class SegmentName:
    """File name of one segment; `number` counts per (table, attempt, rank) from 0."""

    table: str
    attempt: int
    rank: int
    number: int

    def __str__(self) -> str:
        return f"{self.table}-{self.attempt:04d}-{self.rank:05d}-{self.number:08d}.parquet"

    @classmethod
    def parse(cls, name: str) -> SegmentName | None:
        """Segment a file name stands for; None for anything else (a temporary file, say)."""
        match = _SEGMENT.fullmatch(name)
        if match is None or match[1] not in TABLES:
            return None
        return cls(match[1], int(match[2]), int(match[3]), int(match[4]))


def free_segment(
    folder: Path, table: str, attempt: int, rank: int, newest: int
) -> tuple[Path, int]:
    """Path below `folder` and number of the first segment after `newest` that is not there yet."""
    number = newest + 1
    while (path := folder / "segments" / str(SegmentName(table, attempt, rank, number))).exists():
        number += 1
    return path, number


def rank_file_name(attempt: int, rank: int) -> str:
    """Name of a rank's file below ranks/."""
    return f"{attempt:04d}-{rank:05d}.json"
