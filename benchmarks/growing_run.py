"""A run that grows at a steady pace, and the exact rows that an index of it must hold."""

from __future__ import annotations

import random
import threading
import time
from pathlib import Path
from typing import Any

import pyarrow as pa

from ingest.index.indexer import Indexer
from ingest.run import Run
from trace_hooks.schema import (
    SCHEMA_VERSION,
    SPAN_DEFAULTS,
    TABLES,
    SegmentName,
    publish_json,
    publish_table,
    rank_file_name,
)

RANKS = 4
STEP_S = 0.5
SPANS_PER_STEP = 20
US = 1_000
SUMS = {
    "spans": "SELECT count(*) AS n, sum(ts_ns) AS a, sum(dur_ns) AS b FROM spans",
    "steps": "SELECT count(*) AS n, sum(start_ns) AS a, sum(dur_ns) AS b FROM steps",
    "step_rollup": "SELECT count(*) AS n, sum(end_ns) AS a, sum(compute_ns) AS b FROM step_rollup",
    "kind_rollup": "SELECT sum(num_spans) AS n, sum(time_ns) AS a, sum(exposed_ns) AS b"
    " FROM kind_rollup",
}
"""Rows and checksums of a table."""
KINDS = ("forward", "backward")


class GrowingRun:
    """Ranks that each publish a step every STEP_S, a segment per table, in a thread.

    `written_s`: when each step lay in the run folder whole, monotonic; steps count from 0.
    """

    def __init__(self, folder: Path, seed: int = 1) -> None:
        self.folder = folder
        self.written_s: list[float] = []
        self._sums = {name: [0, 0, 0] for name in SUMS}
        self._random = random.Random(seed)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._write, name="writer")
        for name in ("segments", "ranks"):
            (folder / name).mkdir(parents=True)
        begin_ns = time.time_ns()
        info = {"schema": SCHEMA_VERSION, "run": folder.name, "created_ns": begin_ns}
        info |= {"clock": "absolute", "source": "hooks", "framework": "", "versions": {}}
        publish_json(info, folder / "run.json")
        for rank in range(RANKS):
            place = {"attempt": 0, "rank": rank, "world_size": RANKS, "host": "host-0"}
            place |= {"schema": SCHEMA_VERSION, "started_ns": begin_ns}
            publish_json(place, folder / "ranks" / rank_file_name(0, rank))

    def start(self) -> GrowingRun:
        """Begin to write."""
        self._thread.start()
        return self

    def stop(self) -> None:
        """Write no more."""
        self._stop.set()
        self._thread.join()

    @property
    def expected(self) -> dict[str, tuple[int, int, int]]:
        """What SUMS has to answer."""
        return {name: (n, a, b) for name, (n, a, b) in self._sums.items()}

    def _write(self) -> None:
        begun_s, begun_ns, step = time.monotonic(), time.time_ns(), 0
        while not self._stop.wait(max(0.0, begun_s + step * STEP_S - time.monotonic())):
            end_ns = begun_ns + int(
                step * STEP_S * 1e9
            )  # windows of equal length on a busy machine
            for rank in range(RANKS):
                self._publish(rank, step, end_ns)
            self.written_s.append(time.monotonic())
            step += 1

    def _publish(self, rank: int, step: int, end_ns: int) -> None:
        spans, ts_ns = [], end_ns - int(STEP_S * 0.9e9)
        begin_ns = ts_ns
        for number in range(SPANS_PER_STEP):
            dur_ns = self._random.randrange(100 * US, 10_000 * US)
            place = {"attempt": 0, "rank": rank, "step": step, "ts_ns": ts_ns, "dur_ns": dur_ns}
            kind = KINDS[number * len(KINDS) // SPANS_PER_STEP]
            spans.append({**SPAN_DEFAULTS, **place, "kind": kind, "name": kind, "track": "main"})
            self._count("spans", 1, ts_ns, dur_ns)
            self._count("step_rollup", 0, 0, dur_ns)
            self._count("kind_rollup", 1, dur_ns, 0)
            ts_ns += dur_ns
        window = {"attempt": 0, "rank": rank, "step": step}
        window |= {"start_ns": begin_ns, "dur_ns": end_ns - begin_ns}
        self._count("steps", 1, begin_ns, end_ns - begin_ns)
        self._count("step_rollup", 1, end_ns, 0)
        for name, rows in (("spans", spans), ("steps", [window])):
            path = self.folder / "segments" / str(SegmentName(name, 0, rank, step))
            publish_table(_table(name, rows), path)

    def _count(self, name: str, *numbers: int) -> None:
        self._sums[name] = [old + new for old, new in zip(self._sums[name], numbers, strict=True)]


def _table(name: str, rows: list[dict[str, Any]]) -> pa.Table:
    columns = {column.name: None for column in TABLES[name].columns}
    return pa.Table.from_pylist([columns | row for row in rows], schema=TABLES[name].schema)


def sums_of(run_folder: Path) -> dict[str, tuple[int, int, int]]:
    """What SUMS answers about a run, whose index is brought up to date; nobody else may have it."""
    with Indexer(run_folder) as indexer:
        indexer.refresh(merge=False)
    with Run(run_folder) as run:
        answers = {name: run.sql(text).to_pylist()[0] for name, text in SUMS.items()}
    return {name: (int(row["n"]), int(row["a"]), int(row["b"])) for name, row in answers.items()}
