"""Builds small run folders by hand, rows in, files out. Times are given in us from T0."""

from __future__ import annotations

import shutil
from collections import defaultdict
from pathlib import Path
from typing import Any

import pyarrow as pa

from trace_hooks.layout import ParallelLayout
from trace_hooks.schema import (
    SCHEMA_VERSION,
    SPAN_DEFAULTS,
    TABLES,
    SegmentName,
    publish_json,
    publish_table,
    rank_file_name,
)

T0 = 1_700_000_000_000_000_000
US = 1_000

DEFAULTS: dict[str, Any] = {
    **SPAN_DEFAULTS,
    "kind": "host",
    "name": "x",
    "track": "main",
    "op": "all_reduce",
    "dtype": "float32",
    "tag": -1,
    "state": "completed",
    "source": "wrapper",
    "desc": "",
    "axis": "unknown",
    "allocated": -1,
    "reserved": -1,
    "peak": -1,
    "retries": -1,
    "rss": 1 << 20,
    "offset_ns": 0,
    "err_ns": 1000,
    "drift_ppb": 0,
    "method": "store_ping_pong",
    "phase": "step",
    "last_op": "",
    "self_ns": 0,
    "dropped": 0,
    "hook_errors": 0,
    "text": "",
    "host": "h0",
    "metric": "m",
    "value": 0.0,
    "fetch_ns": 0,
    "exposed_ns": 0,
    "tokens": None,
    "sum_sq_len": -1,
}


def table(name: str, rows: list[dict[str, Any]]) -> pa.Table:
    """Rows of a table, with harmless values where none are given."""
    schema = TABLES[name].schema
    defaults = {c.name: None if c.nullable else DEFAULTS.get(c.name) for c in TABLES[name].columns}
    if name == "data_batches":
        defaults["tokens"] = -1
    full = [{**defaults, **row} for row in rows]
    return pa.Table.from_pylist(full, schema=schema)


class RunBuilder:
    """Collects rows per (table, attempt, rank) and publishes them as segments."""

    def __init__(
        self,
        folder: Path,
        world_size: int = 2,
        layout: ParallelLayout | None = None,
        clock: str = "absolute",
        source: str = "hooks",
        hosts: list[str] | None = None,
        **info: Any,
    ) -> None:
        self.folder = folder
        self.world_size = world_size
        self.layout = layout
        self.hosts = hosts or ["h0"] * world_size
        self.rows: dict[tuple[str, int, int], list[dict[str, Any]]] = defaultdict(list)
        self._numbers: dict[tuple[str, int, int], int] = defaultdict(int)
        for name in ("segments", "ranks"):
            (folder / name).mkdir(parents=True, exist_ok=True)
        publish_json(
            {
                "schema": SCHEMA_VERSION,
                "run": folder.name,
                "created_ns": T0,
                "clock": clock,
                "source": source,
                "framework": "test",
                "versions": {},
                **info,
            },
            folder / "run.json",
        )

    def rank_files(
        self,
        attempt: int = 0,
        end: dict[str, Any] | None = None,
        hooks: dict[str, Any] | None = None,
    ) -> None:
        """ranks/*.json of every rank of an attempt."""
        for rank in range(self.world_size):
            info = {
                "schema": SCHEMA_VERSION,
                "attempt": attempt,
                "rank": rank,
                "world_size": self.world_size,
                "host": self.hosts[rank],
                "pid": 100 + rank,
                "local_rank": rank,
                "device": "cpu",
                "device_uuid": "",
                "started_ns": T0,
                "layout": self.layout.to_json() if self.layout else None,
                "coords": self.layout.coords(rank) if self.layout else None,
                "end": end,
                "hooks": hooks or {},
            }
            publish_json(info, self.folder / "ranks" / rank_file_name(attempt, rank))

    def add(self, table_name: str, rank: int, step: int, attempt: int = 0, **values: Any) -> None:
        """One row; columns as they are in the file."""
        self.rows[table_name, attempt, rank].append(
            {"attempt": attempt, "rank": rank, "step": step, **values}
        )

    def span(
        self, rank: int, step: int, kind: str, begin_us: float, end_us: float, **values: Any
    ) -> None:
        """A span from begin_us to end_us after T0."""
        begin_ns, end_ns = T0 + round(begin_us * US), T0 + round(end_us * US)
        self.add("spans", rank, step, kind=kind, ts_ns=begin_ns, dur_ns=end_ns - begin_ns, **values)

    def step(self, rank: int, step: int, begin_us: float, end_us: float, **values: Any) -> None:
        """A row of steps."""
        begin_ns, end_ns = T0 + round(begin_us * US), T0 + round(end_us * US)
        self.add("steps", rank, step, start_ns=begin_ns, dur_ns=end_ns - begin_ns, **values)

    def group(self, group_id: int, ranks: list[int], axis: str, attempt: int = 0) -> None:
        """A group, recorded by each of its members."""
        for rank in ranks:
            self.add(
                "groups",
                rank,
                -1,
                attempt,
                group_id=group_id,
                name=f"g{group_id}",
                axis=axis,
                ranks=ranks,
            )

    def collective(
        self,
        rank: int,
        step: int,
        group_id: int,
        seq: int,
        start_us: float,
        end_us: float,
        **values: Any,
    ) -> None:
        """One member's part in an instance; end_us < 0: not complete."""
        start_ns = T0 + round(start_us * US)
        end_ns = T0 + round(end_us * US) if end_us >= 0 else -1
        self.add(
            "collectives",
            rank,
            step,
            group_id=group_id,
            seq=seq,
            enqueue_ns=start_ns,
            start_ns=start_ns,
            end_ns=end_ns,
            **{"num_bytes": 64, **values},
        )

    def publish(self) -> int:
        """Write what was added since the last time as one segment per table and rank."""
        for (name, attempt, rank), rows in self.rows.items():
            number = self._numbers[name, attempt, rank]
            self._numbers[name, attempt, rank] += 1
            file = self.folder / "segments" / str(SegmentName(name, attempt, rank, number))
            publish_table(table(name, rows), file)
        count = len(self.rows)
        self.rows.clear()
        return count


def two_rank_run(folder: Path, num_steps: int = 3, slow_us: float = 20.0) -> RunBuilder:
    """Two ranks, tp 2, steps of 100 us: data 10, forward 40 with an all-reduce at its end, backward
    40, optimizer 10. Rank 1 comes `slow_us` late to every all-reduce: rank 0 waits for it.
    """
    run = RunBuilder(folder, 2, ParallelLayout.from_sizes(tp=2))
    run.group(7, [0, 1], "tp")
    for step in range(num_steps):
        t = step * 100.0
        for rank in range(2):
            start, end = t + 20 + (slow_us if rank else 0), t + 50
            run.step(rank, step, t, t + 100, tokens=512.0, flops=1e9)
            run.span(rank, step, "data_wait", t, t + 10)
            run.span(rank, step, "forward", t + 10, t + 50, microbatch=0, cpu_ns=30_000)
            run.span(
                rank, step, "tp_comm", start, end, depth=1, group_id=7, coll_seq=step, cpu_ns=1_000
            )
            run.span(rank, step, "backward", t + 50, t + 90, microbatch=0, cpu_ns=38_000)
            run.span(rank, step, "optimizer", t + 90, t + 100, cpu_ns=9_000)
            run.collective(rank, step, 7, step, start, end)
    run.rank_files()
    run.publish()
    return run


def restarted_run(folder: Path, world_sizes: tuple[int, int] = (2, 2)) -> RunBuilder:
    """Attempt 0 with steps 0 to 9 of 100 us, attempt 1 with steps 8 to 14 from 10 ms on."""
    for attempt, (first, last) in enumerate([(0, 9), (8, 14)]):
        run = RunBuilder(folder, world_sizes[attempt])
        for step in range(first, last + 1):
            t = 10_000.0 * attempt + 100.0 * step
            for rank in range(run.world_size):
                run.step(rank, step, t, t + 100, attempt=attempt)
                run.span(rank, step, "forward", t + 10, t + 90, attempt=attempt)
        run.rank_files(attempt)
        run.publish()
    return run


def collectives_only_run(folder: Path) -> RunBuilder:
    """Three ranks without spans and steps, as of a Flight Recorder: 0 and 1 (group 7, tp) reduce
    from 10 and 30 to 50 us, then 0 in vain; in group 8 (dp) 0 waits in vain for 2, which recorded
    nothing; 1 sends something whose other side is not known.
    """
    run = RunBuilder(folder, 3, source="flight_recorder")
    run.group(7, [0, 1], "tp")
    run.group(8, [0, 2], "dp")
    run.collective(0, -1, 7, 0, 10, 50)
    run.collective(1, -1, 7, 0, 30, 50)
    run.collective(0, -1, 7, 1, 60, -1, state="started")
    run.collective(0, -1, 8, 0, 20, -1, op="broadcast", state="enqueued")
    run.collective(1, -1, 7, 1 << 40, 70, 90, op="send", peer=0)
    for rank in range(3):
        run.add("clocks", rank, -1, ts_ns=T0)
    run.rank_files()
    run.publish()
    return run


def remove_run(run: Path) -> None:
    """As `rm -rf` of a run that a server indexes at the same time: files come and go meanwhile."""
    for _ in range(1000):
        shutil.rmtree(run, ignore_errors=True)
        if not run.exists():
            return
    raise AssertionError(f"{run} comes again and again")
