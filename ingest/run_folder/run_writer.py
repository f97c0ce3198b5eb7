"""The run folder that an import makes: rows as segments, and what describes them as JSON."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from ingest.errors import disk_error, printable
from ingest.limits import limits
from trace_hooks.schema import (
    SCHEMA_VERSION,
    RankInfo,
    RunInfo,
    SegmentName,
    publish_json,
    publish_table,
    rank_file_name,
)

UNKNOWN_RANK = "unknown"
"""Key of events_per_rank for the files whose rank is unknown, also by their names."""
_LONGEST_SENTENCE = 2000
_MOST_SENTENCES = 1000


@dataclass
class Findings:
    """What readers found in the files in addition to rows; `ranks` by rank, events -1 unknown."""

    ranks: dict[int, RankInfo] = field(default_factory=dict)
    guesses: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    events_per_rank: dict[int, int] = field(default_factory=dict)
    clock: str = "absolute"

    def to_json(self) -> dict[str, Any]:
        """For the process that ends the import."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Findings:
        """What `to_json` gave, read back."""
        numbered = {
            name: {int(rank): value for rank, value in data[name].items()}
            for name in ("ranks", "events_per_rank")
        }
        return cls(**{**data, **numbered})


def check_rank(info: RankInfo) -> None:
    """Raise ValueError for a rank that no job has."""
    most = limits().max_ranks
    if not 0 <= info["rank"] < most or info["world_size"] > most:
        rank = f"rank {info['rank']} of {info['world_size']}"
        raise ValueError(f"{rank} is beyond RANKSCOPE_MAX_RANKS={most}")


def has_start(info: RankInfo) -> bool:
    """Whether it is known when the rank began: 0 is a time where it ended later."""
    return bool(info["started_ns"] or (info["end"] or {"ts_ns": 0})["ts_ns"])


class RunWriter:
    """Where readers put their rows: one run folder in the making."""

    def __init__(self, folder: Path, findings: Findings | None = None) -> None:
        self.folder = folder
        self.found = findings or Findings()
        self._numbers: dict[tuple[str, int], int] = defaultdict(int)
        for name in ("segments", "ranks"):
            (folder / name).mkdir(exist_ok=True)

    @property
    def ranks(self) -> dict[int, RankInfo]:
        """What is known of each rank that was read."""
        return self.found.ranks

    def add_rows(self, table: str, rank: int, rows: pa.Table) -> None:
        """One segment of these rows."""
        write_rows(rows, self.next_segment(table, rank))

    def adopt_rows(self, table: str, rank: int, path: Path) -> None:
        """Rows that lie in a file on the same disk already, which becomes a segment."""
        path.rename(self.next_segment(table, rank))

    def next_segment(self, table: str, rank: int) -> Path:
        """Where the next rows of a table and rank belong."""
        number = self._numbers[table, rank]
        self._numbers[table, rank] += 1
        return self.folder / "segments" / str(SegmentName(table, 0, rank, number))

    def remove_rows(self, table: str) -> None:
        """Take back all rows of a table."""
        for path in (self.folder / "segments").glob(f"{table}-*.parquet"):
            path.unlink()

    def add_rank(self, info: RankInfo) -> None:
        """Keep it until the end; several files of a rank widen its time.

        Raises ValueError for a rank that no job has.
        """
        check_rank(info)
        earlier = self.ranks.get(info["rank"])
        if earlier is not None:
            info["started_ns"] = min(info["started_ns"], earlier["started_ns"])
            ends = [end for end in (earlier["end"], info["end"]) if end is not None]
            info["end"] = max(ends, key=lambda end: end["ts_ns"], default=None)
        self.ranks[info["rank"]] = info

    def add_guess(self, text: str) -> None:
        """Something a reader decided."""
        self._keep_sentence(self.found.guesses, text)

    def ranks_by_pid(self) -> None:
        """The reader says which ranks there are."""

    def add_problem(self, text: str) -> None:
        """Something that could not be read."""
        self._keep_sentence(self.found.problems, text)

    def _keep_sentence(self, sentences: list[str], text: str) -> None:
        """Keep a sentence: in one line, not endless, and not more of them than anybody reads."""
        if len(sentences) < _MOST_SENTENCES:
            sentences.append(printable(text[:_LONGEST_SENTENCE]))
        elif len(sentences) == _MOST_SENTENCES:
            sentences.append("there are more of these, which are not listed")

    def count_events(self, rank: int, num_events: int) -> None:
        """Elements of one file's list of events; rank -1 unknown."""
        counted = self.found.events_per_rank
        counted[rank] = counted.get(rank, 0) + num_events

    def set_clock(self, clock: str) -> None:
        """What times mean."""
        self.found.clock = clock

    def publish(
        self, run: str, source: str, provenance: list[str], t0_ns: int | None = None
    ) -> None:
        """Write the files that describe the run; it is complete after that.

        `t0_ns`: what times shall be counted from, if it lies within the run; else it is the
        earliest start.
        """
        if all(info["world_size"] < 0 for info in self.ranks.values()):
            self.add_guess(f"the world size is unknown; ranks read: {len(self.ranks)}")
        for rank, info in self.ranks.items():
            publish_json(info, self.folder / "ranks" / rank_file_name(0, rank))
        run_info = RunInfo(
            schema=SCHEMA_VERSION,
            run=run,
            created_ns=self._t0_ns(t0_ns),
            clock=self.found.clock,
            source=source,
            framework="torch" if source in ("kineto", "flight_recorder") else "",
            versions={},
            provenance=provenance,
            guesses=self.found.guesses,
            problems=self.found.problems,
            events_per_rank={
                str(rank) if rank >= 0 else UNKNOWN_RANK: num_events
                for rank, num_events in sorted(self.found.events_per_rank.items())
            },
        )
        publish_json(run_info, self.folder / "run.json")

    def _t0_ns(self, wanted_ns: int | None) -> int:
        known = [info for info in self.ranks.values() if has_start(info)]
        began_ns = min((info["started_ns"] for info in known), default=0)
        ended_ns = max((info["end"]["ts_ns"] for info in known if info["end"]), default=0)
        return began_ns if wanted_ns is None or not began_ns <= wanted_ns <= ended_ns else wanted_ns


def write_rows(rows: pa.Table, path: Path) -> None:
    """A file of rows; raises UserError where it cannot be written, DiskFull where it is full."""
    try:
        publish_table(rows, path)
    except OSError as error:  # a full disk is no fault of the file that is read
        raise disk_error(str(path.parent), error) from error
