"""A recorded run written once more, live: the same segments at the pace they had, from now on.

python benchmarks/replay.py sample_traces/recorded/slow_rank runs/again [--minutes 5]

The server sees a job that runs, without torch. Each rank publishes what it knows every 0.7 s, as
the drain thread of the hooks does; a row is known once what it describes has ended. After the last
recorded step the steps from the second one on (from a planted fault on, where there is one) come
again, numbered on, so that it lasts as long as one likes. One JSON line on stdout for each step
that all ranks have published:

    {"step": 12, "happened_ns": ..., "written_ns": ...}

happened_ns: the end of the step on its last rank. The times of the rows are those of this machine.
"""

from __future__ import annotations

import argparse
import json
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from trace_hooks.schema import TABLES, SegmentName, publish_json, publish_table, rank_file_name

FLUSH_S = 0.7
"""Each rank publishes this often, as trace_hooks.recording.drain_thread does."""

_POINTS = ("ts_ns", "start_ns", "enqueue_ns", "end_ns")
_LEAD_NS = 500_000_000
"""The first recorded row happens this long after the start of the replay."""

Published = Callable[[int, int, int], None]
"""Called with (step, happened_ns, written_ns)."""


def _recorded(run_folder: Path, table: str) -> pa.Table | None:
    names = [(p, SegmentName.parse(p.name)) for p in sorted(run_folder.glob("*/*.parquet"))]
    parts = [pq.read_table(path) for path, name in names if name and name.table == table]
    if not parts:
        return None
    rows = pa.concat_tables(parts).unify_dictionaries()
    for field in TABLES[table].schema:
        if field.nullable and field.name not in rows.schema.names:  # of an earlier minor version
            rows = rows.append_column(field, pa.nulls(rows.num_rows, field.type))
    rows = rows.select(TABLES[table].schema.names)
    return rows.cast(TABLES[table].schema)


def _known_ns(rows: pa.Table) -> np.ndarray:
    """When a rank knew each row: the end of what it describes."""
    names = rows.schema.names
    if "end_ns" in names:
        ended, begun = rows["end_ns"].to_numpy(), rows["enqueue_ns"].to_numpy()
        return np.where(ended >= 0, ended, begun)
    begun = next((rows[name].to_numpy() for name in ("ts_ns", "start_ns") if name in names), None)
    if begun is None:  # groups: known at once
        return np.zeros(rows.num_rows, dtype=np.int64)
    return begun + rows["dur_ns"].to_numpy() if "dur_ns" in names else begun


@dataclass(frozen=True)
class Part:
    """Rows of one table and rank, ordered by when they were known."""

    table: str
    rank: int
    rows: pa.Table
    known_ns: np.ndarray


@dataclass(frozen=True)
class Shift:
    """How a repetition differs from the recording: later, with numbers that go on."""

    time_ns: int
    steps: int
    seqs: int

    def apply(self, rows: pa.Table) -> pa.Table:
        """The rows as they are in this repetition."""
        for name in rows.schema.names:
            by = self._of(name)
            if by == 0:
                continue
            values = rows[name].to_numpy()
            moved = np.where(values >= 0, values + by, values)
            at = rows.schema.names.index(name)
            rows = rows.set_column(at, rows.schema.field(name), pa.array(moved))
        return rows

    def _of(self, column: str) -> int:
        if column in _POINTS:
            return self.time_ns
        return {"step": self.steps, "seq": self.seqs, "coll_seq": self.seqs}.get(column, 0)


class Recording:
    """A recorded run cut by table and rank: what comes once, and what is repeated."""

    def __init__(self, run_folder: Path) -> None:
        self.info = json.loads((run_folder / "run.json").read_text(encoding="utf-8"))
        self.rank_files = [
            json.loads(path.read_text(encoding="utf-8"))
            for path in sorted((run_folder / "ranks").glob("*.json"))
        ]
        tables = {name: _recorded(run_folder, name) for name in TABLES}
        self.tables = {name: rows for name, rows in tables.items() if rows is not None}
        steps = self.tables["steps"]
        number = steps["step"].to_numpy()
        self.first_step, self.last_step = int(number.min()), int(number.max())
        if self.last_step <= self.first_step:
            raise SystemExit(f"{run_folder} has a single step; replay a longer run")
        start_ns = steps["start_ns"].to_numpy()
        end_ns = start_ns + steps["dur_ns"].to_numpy()
        self.ends_ns = {s: int(end_ns[number == s].max()) for s in sorted(set(number.tolist()))}
        self.t0_ns = int(self.info["created_ns"])
        self.end_ns = int(end_ns.max())
        faults = self.info.get("truth", {}).get("faults", [])
        since = max((int(fault["from"]) for fault in faults), default=0)
        self.again_from = min(max(since, self.first_step + 1), self.last_step)
        self.period_ns = self.end_ns - int(start_ns[number == self.again_from].min())
        self.num_repeated = self.last_step - self.again_from + 1
        seqs = self.tables["collectives"]["seq"].to_numpy()
        self.num_seqs = int(seqs.max()) + 1

    @property
    def end_s(self) -> float:
        """Seconds from the creation of the run to the end of its last step."""
        return (self.end_ns - self.t0_ns) / 1e9

    @property
    def ranks(self) -> list[int]:
        """Global ranks, ascending."""
        return sorted(info["rank"] for info in self.rank_files)

    def parts(self, rank: int, repeated: bool) -> list[Part]:
        """All rows of a rank, or those of the steps that are repeated."""
        found = []
        for name, rows in self.tables.items():
            mine = pc.equal(rows["rank"], rank)
            if repeated:
                mine = pc.and_(mine, pc.greater_equal(rows["step"], self.again_from))
            rows = rows.filter(mine)
            if repeated and name in ("marks", "groups", "clocks"):
                continue
            if rows.num_rows:
                order = np.argsort(known := _known_ns(rows), kind="stable")
                found.append(Part(name, rank, rows.take(pa.array(order)), known[order]))
        return found


class Replay:
    """Writes a recording into a new run folder; each `flush` publishes what a rank knows by now."""

    def __init__(self, recording: Recording, folder: Path) -> None:
        self.recording = recording
        self.folder = folder
        self.begun_ns = time.time_ns() + _LEAD_NS
        self.shift_ns = self.begun_ns - recording.t0_ns
        self._numbers: dict[tuple[str, int], int] = {}
        self._until_ns = dict.fromkeys(recording.ranks, -1)
        self._once = {rank: recording.parts(rank, repeated=False) for rank in recording.ranks}
        self._again = {rank: recording.parts(rank, repeated=True) for rank in recording.ranks}
        for name in ("segments", "ranks"):
            (folder / name).mkdir(parents=True, exist_ok=True)
        for info in recording.rank_files:
            self._publish_rank(info, end=None)
        publish_json(
            recording.info | {"run": folder.name, "created_ns": self.begun_ns}, folder / "run.json"
        )

    def flush(self, rank: int, now_ns: int) -> None:
        """Publish all rows of a rank that became known between its last flush and `now_ns`."""
        low_ns, high_ns = self._until_ns[rank], now_ns
        self._until_ns[rank] = high_ns
        by_name: dict[str, list[pa.Table]] = {}
        for shift, parts in self._loops(rank, low_ns, high_ns):
            for part in parts:
                known = part.known_ns + shift.time_ns
                first, last = np.searchsorted(known, [low_ns, high_ns], side="right")
                if last > first:
                    rows = shift.apply(part.rows.slice(first, last - first))
                    by_name.setdefault(part.table, []).append(rows)
        for table, rows in by_name.items():
            number = self._numbers.get((table, rank), 0)
            self._numbers[table, rank] = number + 1
            file = self.folder / "segments" / str(SegmentName(table, 0, rank, number))
            publish_table(pa.concat_tables(rows).unify_dictionaries(), file)

    def _loops(self, rank: int, low_ns: int, high_ns: int) -> Iterator[tuple[Shift, list[Part]]]:
        """The recording and its repetitions that may have rows between two times."""
        made = self.recording
        if low_ns <= made.end_ns + self.shift_ns + made.period_ns:
            yield Shift(self.shift_ns, 0, 0), self._once[rank]
        for loop in self._between(low_ns, high_ns):
            yield self._shift(loop), self._again[rank]

    def _between(self, low_ns: int, high_ns: int) -> range:
        """Repetitions (from 1) that may have rows between two times."""
        made = self.recording
        end_ns = made.end_ns + self.shift_ns
        first = max((low_ns - end_ns) // made.period_ns, 1)
        return range(first, max((high_ns - end_ns) // made.period_ns + 3, first))

    def _shift(self, loop: int) -> Shift:
        made = self.recording
        return Shift(
            self.shift_ns + loop * made.period_ns, loop * made.num_repeated, loop * made.num_seqs
        )

    def step_end_ns(self, step: int) -> int:
        """When a step (counted on through the repetitions) ends on its last rank."""
        made = self.recording
        loop = max(0, -(-(step - made.last_step) // made.num_repeated))
        return made.ends_ns[step - loop * made.num_repeated] + self._shift(loop).time_ns

    def run(self, stop: threading.Event, published: Published = lambda *_: None) -> None:
        """Flush rank after rank, evenly spread, until `stop` is set; then all ranks end."""
        ranks = self.recording.ranks
        step, turn, begun_s = self.recording.first_step, 0, time.monotonic()
        while not stop.wait(max(begun_s + turn * FLUSH_S / len(ranks) - time.monotonic(), 0)):
            self.flush(ranks[turn % len(ranks)], time.time_ns())
            turn += 1
            while min(self._until_ns.values()) >= self.step_end_ns(step):
                published(step, self.step_end_ns(step), time.time_ns())
                step += 1
        self.end()

    def end(self) -> None:
        """Publish the rest and let every rank end as finished."""
        for rank in self.recording.ranks:
            self.flush(rank, time.time_ns())
        for info in self.recording.rank_files:
            end = {"ts_ns": time.time_ns(), "status": "finished", "error": None}
            self._publish_rank(info, end)

    def _publish_rank(self, info: dict[str, Any], end: dict[str, Any] | None) -> None:
        moved = info | {"started_ns": info["started_ns"] + self.shift_ns, "end": end}
        publish_json(moved, self.folder / "ranks" / rank_file_name(info["attempt"], info["rank"]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("run", type=Path, help="a recorded run folder")
    parser.add_argument("into", type=Path, help="run folder to write; must not exist")
    parser.add_argument("--minutes", type=float, default=5.0, help="(%(default)s)")
    options = parser.parse_args()
    if options.into.exists():
        parser.error(f"{options.into} exists; name a new folder")
    stop = threading.Event()
    timer = threading.Timer(options.minutes * 60, stop.set)
    timer.daemon = True
    timer.start()

    def print_step(step: int, happened_ns: int, written_ns: int) -> None:
        line = {"step": step, "happened_ns": happened_ns, "written_ns": written_ns}
        print(json.dumps(line), flush=True)

    replay = Replay(Recording(options.run), options.into)
    try:
        replay.run(stop, print_step)
    except KeyboardInterrupt:
        replay.end()


if __name__ == "__main__":
    main()
