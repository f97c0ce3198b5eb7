"""Where files that accompany a trace, such as logs, put their rows: the run of that trace.

The trace alone decides which ranks there are, their layout and what times mean. Rows of a rank that
it does not have count as of no rank; a host that it does not know is filled in. Lines of logs get
the steps of the trace, by their times.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ingest.imports.steps_by_time import StepsByTime
from ingest.run_folder.run_writer import RunWriter
from trace_hooks.schema import UNKNOWN, RankInfo

_MOST_NAMED = 8


class AccompanyingSink:
    """A sink for one format next to the run's own, used once that one has named its ranks."""

    def __init__(self, run: RunWriter, title: str) -> None:
        self._run = run
        self._title = title
        self._strangers: set[int] = set()
        """ranks of its rows that the trace does not have"""
        self._steps: StepsByTime | None = None

    def add_rows(self, table: str, rank: int, rows: pa.Table) -> None:
        """Rows of any ranks; those of ranks that the trace does not have become rank -1."""
        ranks = rows.column("rank")
        named = {value for value in pc.unique(ranks).to_pylist() if value >= 0}
        strangers = named - self._ranks_of(named)
        if strangers:
            self._strangers |= strangers
            is_stranger = pc.is_in(ranks, pa.array(sorted(strangers), ranks.type))
            index = rows.schema.get_field_index("rank")
            known = pc.if_else(is_stranger, pa.scalar(UNKNOWN, ranks.type), ranks)
            rows = rows.set_column(index, rows.schema.field(index), known)
        if table == "log_lines" and self._run.found.clock == "absolute":
            self._steps = self._steps or StepsByTime(self._run.folder / "segments")
            rows = self._steps.filled(rows)
        self._run.add_rows(table, rank, rows)

    def adopt_rows(self, table: str, rank: int, path: Path) -> None:
        """Rows that lie in a file, which goes."""
        rows = pq.read_table(path)
        path.unlink()
        self.add_rows(table, rank, rows)

    def add_rank(self, info: RankInfo) -> None:
        """Takes over the host of a rank that the trace has, where the trace does not name it."""
        known = self._run.ranks.get(info["rank"])
        if known is not None and not known["host"] and info["host"]:
            self._run.add_rank({**known, "host": info["host"]})

    def add_guess(self, text: str) -> None:
        """Something its reader decided."""
        self._run.add_guess(text)

    def add_problem(self, text: str) -> None:
        """Something that could not be read."""
        self._run.add_problem(text)

    def ranks_by_pid(self) -> dict[int, int]:
        """Ranks of the trace by their process, where no other host has one of that number."""
        pids = Counter(info["pid"] for info in self._run.ranks.values())
        return {
            info["pid"]: rank
            for rank, info in self._run.ranks.items()
            if info["pid"] > 0 and pids[info["pid"]] == 1
        }

    def count_events(self, rank: int, num_events: int) -> None:
        """Events are those of the trace."""

    def set_clock(self, clock: str) -> None:
        """The trace says what times mean."""

    def finish(self) -> None:
        """Note of which ranks there were rows but no trace."""
        if self._strangers:
            self._run.add_guess(
                f"{self._title} name {_named(sorted(self._strangers))}, which the trace does not "
                "have: these lines are kept without a rank"
            )

    def _ranks_of(self, ranks: set[int]) -> set[int]:
        """Those that the job has: their trace is here, or the world is large enough for them."""
        world_size = max((info["world_size"] for info in self._run.ranks.values()), default=-1)
        return {rank for rank in ranks if rank in self._run.ranks or rank < world_size}


def _named(ranks: list[int]) -> str:
    more = f" and {len(ranks) - _MOST_NAMED} more" if len(ranks) > _MOST_NAMED else ""
    return f"rank{'s' if len(ranks) > 1 else ''} {', '.join(map(str, ranks[:_MOST_NAMED]))}{more}"
