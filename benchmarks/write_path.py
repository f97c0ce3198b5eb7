"""Files and bytes that a host of many ranks writes, without and with a collector, and their cost.

    python benchmarks/write_path.py [--ranks 64] [--own 30] [--idle 180] [--watched 60]
        [--sampled 60]

Simulated ranks write the rows of sample_traces/recorded/healthy, a step each 0.7 s, through the
writers of the hooks; the watchdog with telemetry and collector is the real one. Four ways, so many
seconds each: files of each rank; a collector while nobody looks at the run; one while a page does;
one with the spans of every tenth step, and sums of the others (TRACE_HOOKS_SPANS_EVERY=10).
Prints files per second, how old the rows of a step are when they are published, bytes by table, the
CPU time of ranks, watchdog and indexer. "per table": how many files it would be if the collector
published one per table.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
import zipfile
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from multiprocessing import get_context
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from browser import REPO, clean_environment, conditions

from ingest.index.indexer import Indexer
from trace_hooks.job.handover import HandoverWriter
from trace_hooks.job.process_info import start_ticks
from trace_hooks.job.spool import Destination, Spool
from trace_hooks.recording.clock import now
from trace_hooks.recording.drain_thread import FLUSH_S, SELDOM, SELDOM_S
from trace_hooks.recording.flight_ring import Ring
from trace_hooks.recording.held_spans import HeldSpans
from trace_hooks.recording.segment_writer import SegmentWriter, Writer
from trace_hooks.recording.step_sampling import StepSampling
from trace_hooks.schema import TABLES, SegmentName, publish_json

RECORDED = REPO / "sample_traces" / "recorded" / "healthy"
NUM_RECORDED, STEPS = 8, 14
POINTS = ("ts_ns", "start_ns", "enqueue_ns", "end_ns")
SAMPLED_EVERY = 10
TOUCH_S = 2.0
"""As app/runs/viewers.py does."""

Rows = dict[tuple[int, int], dict[str, pa.Table]]
"""Tables of a recorded (rank, step)."""


@dataclass
class Measured:
    """What one way of writing gave."""

    steps: int = 0
    seconds: float = 0.0
    files: int = 0
    files_per_table: int = 0
    num_bytes: int = 0
    by_table: Counter[str] = field(default_factory=Counter)
    written_s: list[float] = field(default_factory=list)  # by step, Unix time
    ages_s: list[float] = field(default_factory=list)  # of the rows of steps, when published
    rank_cpu_s: float = 0.0
    watchdog_cpu_s: float = 0.0
    index_cpu_s: float = 0.0
    rows: int = 0


def recorded_rows() -> Rows:
    """The recorded rows by rank and step, without the columns that writers fill in."""
    rows: Rows = {}
    for path in sorted((RECORDED / "compacted").glob("*.parquet")):
        table = path.name.partition("-")[0]
        whole = with_all_columns(table, pq.read_table(path))
        for rank in range(NUM_RECORDED):
            of_rank = whole.filter(pc.equal(whole["rank"], rank))
            for step in range(STEPS):
                part = of_rank.filter(pc.equal(of_rank["step"], step))
                if part.num_rows:
                    part = part.drop_columns(["attempt", "rank"]).unify_dictionaries()
                    rows.setdefault((rank, step), {})[table] = part
    return rows


def with_all_columns(table: str, rows: pa.Table) -> pa.Table:
    """The rows with columns that came after they were recorded."""
    for column in TABLES[table].columns:
        if column.name not in rows.column_names:
            rows = rows.append_column(column.name, pa.nulls(rows.num_rows, column.type))
    return rows


def extent_ns(rows: Rows) -> int:
    """How long the recorded steps took."""
    steps = pa.concat_tables([tables["steps"] for tables in rows.values()])
    end = pc.max(pc.add(steps["start_ns"], steps["dur_ns"])).as_py()
    return int(end - pc.min(steps["start_ns"]).as_py())


def moved(rows: pa.Table, by_steps: int, by_ns: int) -> pa.Table:
    """The rows so many steps, and so long, later."""
    for name in ("step", *POINTS):
        index = rows.schema.get_field_index(name)
        if index >= 0:
            by = by_steps if name == "step" else by_ns
            rows = rows.set_column(index, rows.schema.field(index), pc.add(rows.column(index), by))
    return rows


class Ranks:
    """The simulated ranks of a host."""

    def __init__(self, folder: Path, number: int, collects: bool, every: int = 1) -> None:
        self.run, self.meeting = folder / "run", folder / "meeting"
        (self.run / "segments").mkdir(parents=True)
        self.meeting.mkdir(mode=0o700)
        info = json.loads((RECORDED / "run.json").read_text())
        publish_json(info, self.run / "run.json")
        self.rings = [self._ring(rank, number) for rank in range(number)]
        self.writers = [self._writer(rank, collects) for rank in range(number)]
        self._held: list[dict[str, list[pa.Table]]] = [{} for _ in range(number)]
        self._sampled = [HeldSpans(StepSampling(every)) for _ in range(number if every > 1 else 0)]
        self._parts = ["telemetry", *(["collector"] if collects else [])]

    def _ring(self, rank: int, number: int) -> Ring:
        path = self.meeting / f"{os.getpid()}-{rank}.ring"
        ring = Ring(path, start_ticks(os.getpid()) or 0, time.time_ns() - now())
        told = {"run_folder": str(self.run), "log_files": {}, "allow_content": False}
        path.with_suffix(".json").write_text(json.dumps(told))
        ring.place("healthy", 0, rank, number)
        ring.beat(now(), 0, "step", "")
        return ring

    def _writer(self, rank: int, collects: bool) -> Writer:
        own = SegmentWriter(self.run, 0, rank)
        if not collects:
            return own
        spool = Spool(self.meeting, f"{os.getpid()}-{rank}")
        return HandoverWriter(own, spool, Destination(self.run, 0, rank))

    def start_watchdog(self) -> None:
        """Start the host's watchdog, which ends when the ranks do."""
        command = [sys.executable, "-m", "trace_hooks.watchdog", str(self.meeting)]
        subprocess.run(
            [*command, "60", "120", "120", *self._parts],
            env=clean_environment() | {"PYTHONPATH": str(REPO), "TRACE_HOOKS": "0"},
            stdout=subprocess.DEVNULL,
            check=True,
        )

    def watchdog(self) -> int | None:
        """Pid of the watchdog."""
        for path in Path("/proc").glob("[0-9]*/cmdline"):
            try:
                line = path.read_bytes()
            except OSError:
                continue
            if b"trace_hooks.watchdog" in line and str(self.meeting).encode() in line:
                return int(path.parent.name)
        return None

    def step(self, number: int, rows: Rows) -> float:
        """One step of all ranks, and their flushes; rare tables wait as in the drain thread.
        Returns the CPU seconds of the flushes.
        """
        is_seldom_due = number % round(SELDOM_S / FLUSH_S) == 0
        step, by_steps = number % STEPS, number - number % STEPS
        by_ns = number // STEPS * extent_ns(rows)
        of_recorded = [
            {table: moved(part, by_steps, by_ns) for table, part in rows[rank, step].items()}
            for rank in range(min(NUM_RECORDED, len(self.writers)))
        ]
        cpu_s = 0.0
        for rank, writer in enumerate(self.writers):
            held, parts = self._held[rank], of_recorded[rank % NUM_RECORDED]
            begun_s = time.thread_time()
            if self._sampled:
                parts = sampled(self._sampled[rank], parts)
            for table, part in parts.items():
                held.setdefault(table, []).append(part)
            due = [table for table in held if is_seldom_due or table not in SELDOM]
            writer.write_all({table: held.pop(table) for table in due})
            cpu_s += time.thread_time() - begun_s
            self.rings[rank].beat(now(), number, "step", "")
        return cpu_s

    def end(self) -> None:
        """Publish everything, and have the watchdog end."""
        for rank, writer in enumerate(self.writers):
            writer.write_all(self._held[rank])
            writer.finish()
        for ring in self.rings:
            ring.beat(now(), 0, "ended", "", ended=True)
            ring.remove()
        while self.watchdog() is not None:
            time.sleep(0.1)


def sampled(held: HeldSpans, parts: dict[str, pa.Table]) -> dict[str, pa.Table]:
    """The rows of a step as the drain thread publishes them where not all spans are."""
    spans = [held.add(parts["spans"])]
    for row in parts["steps"].to_pylist():
        held.end_step(row["step"], row["start_ns"], row["dur_ns"])
        at_ns = row["start_ns"] + row["dur_ns"]
    settled = held.settle(None, at_ns)
    spans += [settled.pop("spans")] if "spans" in settled else []
    published = {**parts, **settled, "spans": pa.concat_tables(spans).unify_dictionaries()}
    return {table: part for table, part in published.items() if part.num_rows}


def cpu_seconds(pid: int | None) -> float:
    """User and system time of a process. Source: proc(5), stat."""
    if pid is None:
        return 0.0
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def measure(
    number: int,
    seconds: float,
    rows: Rows,
    collects: bool = True,
    watched: bool = False,
    every: int = 1,
) -> Measured:
    """Write in one way for so long, then index what was written; `every`: steps from one with its
    spans to the next.
    """
    found = Measured()
    with tempfile.TemporaryDirectory() as folder:
        ranks = Ranks(Path(folder), number, collects, every)
        ranks.start_watchdog()
        begun_s, touched_s = time.monotonic(), 0.0
        while time.monotonic() < begun_s + seconds:
            if watched and time.monotonic() - touched_s > TOUCH_S:
                (ranks.run / "watched").touch()
                touched_s = time.monotonic()
            found.rank_cpu_s += ranks.step(found.steps, rows)
            found.written_s.append(time.time())
            found.steps += 1
            time.sleep(max(0.0, begun_s + found.steps * FLUSH_S - time.monotonic()))
        found.seconds = time.monotonic() - begun_s
        count_files(ranks.run, found)  # what is published at the end is not of a running job
        found.watchdog_cpu_s = cpu_seconds(ranks.watchdog())
        ranks.end()
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
            found.index_cpu_s, found.rows = pool.submit(index, ranks.run).result()
    return found


def count_files(run: Path, found: Measured) -> None:
    """Files and bytes of a run folder, and bytes by table."""
    for path in (run / "segments").glob("[!.]*"):
        found.files += 1
        found.num_bytes += path.stat().st_size
        published_s = path.stat().st_mtime
        found.ages_s += [max(0.0, published_s - found.written_s[step]) for step in steps_in(path)]
        for table, num_bytes in members(path):
            found.files_per_table += 1
            found.by_table[table] += num_bytes


def members(path: Path) -> Iterator[tuple[str, int]]:
    """Table and bytes of the segments in a file."""
    name = SegmentName.parse(path.name)
    if name is not None:
        yield name.table, path.stat().st_size
    elif path.suffix == ".zip":
        with zipfile.ZipFile(path) as archive:
            for member in archive.infolist():
                yield member.filename.partition("-")[0], member.file_size


def steps_in(path: Path) -> set[int]:
    """The steps of which a segment or bundle has rows of `steps`."""
    parts: list[pa.Table] = []
    if path.name.startswith("steps-"):
        parts = [pq.ParquetFile(path).read()]
    elif path.suffix == ".zip":
        with zipfile.ZipFile(path) as archive:
            names = [name for name in archive.namelist() if name.startswith("steps-")]
            parts = [pq.read_table(pa.py_buffer(archive.read(name))) for name in names]
    return {step for part in parts for step in part.column("step").to_pylist()}


def index(run: Path) -> tuple[float, int]:
    """CPU seconds of the first index of a run, and its rows; in a process of its own."""
    begun = time.process_time()
    with Indexer(run) as indexer:
        indexer.refresh(merge=False)
        entries = indexer.database.manifest.entries()
    return time.process_time() - begun, sum(entry.num_rows for entry in entries)


def report(number: int, ways: dict[str, Measured]) -> None:
    """Print the table of all ways."""
    lines = {
        "steps": lambda m: f"{m.steps}",
        "files per second": lambda m: f"{m.files / m.seconds:.3f}",
        "files per second, per table": lambda m: f"{m.files_per_table / m.seconds:.2f}",
        "age when published, s": lambda m: f"{statistics.median(m.ages_s):.2f}",
        "... 95 %": lambda m: f"{statistics.quantiles(m.ages_s, n=20)[-1]:.2f}",
        "bytes per rank and step": lambda m: f"{m.num_bytes / number / m.steps:,.0f}",
        "CPU of a rank, ms per step": lambda m: f"{1e3 * m.rank_cpu_s / number / m.steps:.2f}",
        "CPU of the watchdog, % of a core": lambda m: f"{100 * m.watchdog_cpu_s / m.seconds:.1f}",
        "CPU of the index, s per M rows": lambda m: f"{m.index_cpu_s / m.rows * 1e6:.1f}",
    }
    print(f"\n{'':34}" + "".join(f"{name:>16}" for name in ways))
    for title, value in lines.items():
        print(f"{title:34}" + "".join(f"{value(found):>16}" for found in ways.values()))
    print("bytes per rank and step, by table")
    tables = Counter[str]()
    for found in ways.values():
        tables |= found.by_table
    for table, _ in tables.most_common():
        cells = (found.by_table[table] / number / found.steps for found in ways.values())
        print(f"  {table:32}" + "".join(f"{cell:>16,.0f}" for cell in cells))


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--ranks", type=int, default=64, help="of the host (%(default)s)")
    parser.add_argument("--own", type=float, default=30, help="seconds (%(default)s)")
    parser.add_argument("--idle", type=float, default=180, help="seconds (%(default)s)")
    parser.add_argument("--watched", type=float, default=60, help="seconds (%(default)s)")
    parser.add_argument("--sampled", type=float, default=60, help="seconds (%(default)s)")
    options = parser.parse_args()
    facts = conditions(ranks=options.ranks)
    del facts["browser"], facts["webgl"]
    print(", ".join(f"{key} {value}" for key, value in facts.items()))
    rows = recorded_rows()
    ways = {
        "own files": measure(options.ranks, options.own, rows, collects=False),
        "collector": measure(options.ranks, options.idle, rows),
        "... watched": measure(options.ranks, options.watched, rows, watched=True),
        "... every 10th": measure(options.ranks, options.sampled, rows, every=SAMPLED_EVERY),
    }
    report(options.ranks, ways)


if __name__ == "__main__":
    main()
