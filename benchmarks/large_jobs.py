"""What jobs of 12,288 and 100,000 ranks write and cost: measured where that fits, else reckoned.

python -m benchmarks.large_jobs [--step-s 10] [--asks 5] [--write docs/scale.md]

Generates jobs of TP 8, PP 8 and interleaved 1F1B with 32 micro-batches, three sizes with every
operation and three with sums per step, indexes each and asks random questions, in CPU time, since
other programs on a machine lengthen any other. Beyond the largest size, figures lie on the straight
line that fits the three best; those of questions whose answers do not grow with the job are the
mean. From these the script reckons what a day of training takes: nothing in that table is measured.
"""

from __future__ import annotations

import argparse
import math
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from random import Random
from statistics import mean, median

import numpy as np
import pyarrow.parquet as pq

from benchmarks.browser import conditions
from benchmarks.page_part import write_part
from benchmarks.scale_parts.own_process import MB, in_own_process
from benchmarks.scale_parts.questions import KINDS, facts_of
from benchmarks.scale_parts.runs import bytes_of, index_run, make_job, make_run, table_files
from ingest.index.compaction import ROWS_PER_FILE
from ingest.index.pass_plan import BAND
from ingest.run import open_run
from sample_traces.generate.job import RANKS_PER_HOST
from trace_hooks.schema import TABLES
from trace_hooks.watchdog.collector import IDLE_S

BEGIN = "<!-- benchmarks.large_jobs replaces what follows -->"
END = "<!-- end of large_jobs -->"
SEED = 1
DAY_S = 86_400
TARGETS = (12_288, 100_000)
"""Ranks of the jobs that are reckoned, where they were not measured."""


@dataclass(frozen=True)
class Level:
    """What is recorded, in jobs of which sizes and of how many steps."""

    level: str
    title: str
    ranks: tuple[int, ...]
    steps: int
    questions: tuple[str, ...]


OF_SOME_RANKS = ("timeline", "one collective")
"""Beginnings of the names of questions whose answers do not grow with the job."""

LEVELS = (
    Level("spans", "every operation", (1_024, 2_048, 4_096), 1, OF_SOME_RANKS),
    Level("steps", "sums per step", (1_024, 4_096, 12_288), 10, ("heat map", "grid", "10 slowest")),
)

STEP_MB = "files, MB a step"
INDEX_MB = "index, MB a step"
CPU_S = "indexing, CPU s a step"

Figures = dict[str, float]


@dataclass(frozen=True)
class Measured:
    """Of one size: figures by name, and rows a step by table."""

    figures: Figures
    rows: Figures


def measured(folder: Path, level: Level, ranks: int, asks: int) -> Measured:
    """Generate the run, index it and ask it."""
    in_own_process(make_run, make_job(ranks, level.steps, level.level, SEED), folder)
    files = {name: table_files(folder, name) for name in TABLES}
    _, indexing = in_own_process(index_run, folder)
    times, asking = in_own_process(asked, folder, level.questions, asks)
    index = max(path.stat().st_size for path in (folder / "index").glob("snapshot-*.duckdb"))
    step_bytes = sum(map(bytes_of, files.values())) / level.steps
    figures = {
        "files, bytes per rank and step": step_bytes / ranks,
        STEP_MB: step_bytes / MB,
        INDEX_MB: index / MB / level.steps,
        CPU_S: indexing.cpu_s / level.steps,
        "indexing, peak MB": indexing.peak_mb,
        "questions, peak MB": asking.peak_mb,
        **times,
    }
    rows = {name: _rows(paths) / level.steps for name, paths in files.items() if paths}
    return Measured(figures, rows)


def asked(folder: Path, questions: tuple[str, ...], asks: int) -> Figures:
    """Median CPU ms of random questions of each kind, to a run that is open."""
    random, times = Random(SEED), {}
    with open_run(folder, refresh=False) as run:
        facts = facts_of(run, random)
        for name, kind in KINDS.items():
            if name.startswith(questions):
                drawn = [kind.draw(facts, random) for _ in range(asks + 1)]
                cpu_ms = [_cpu_ms(partial(one.ask, run)) for one in drawn]
                times[f"{name}, CPU ms"] = median(cpu_ms[1:])  # the first one plans the query
    return times


def _cpu_ms(call: Callable[[], object]) -> float:
    began_s = time.process_time()
    call()
    return (time.process_time() - began_s) * 1e3


def _rows(paths: Sequence[Path]) -> int:
    return sum(pq.read_metadata(path).num_rows for path in paths)


def on_the_line(ranks: int, sizes: Sequence[int], values: Sequence[float]) -> float:
    """The value at `ranks` of the line that fits best; not below the last value."""
    slope, start = np.polyfit(sizes, values, 1)
    return max(float(start + slope * ranks), values[-1])


def beyond(ranks: int, level: Level, found: Sequence[Measured]) -> Measured:
    """Figures of a size that was not measured."""

    def reckoned(name: str, values: Sequence[float]) -> float:
        if name.startswith(OF_SOME_RANKS):
            return mean(values)
        return on_the_line(ranks, level.ranks, values)

    figures = {name: reckoned(name, [o.figures[name] for o in found]) for name in found[-1].figures}
    rows = {name: reckoned(name, [o.rows[name] for o in found]) for name in found[-1].rows}
    return Measured(figures, rows)


def costs_table(level: Level, found: Sequence[Measured], larger: dict[int, Measured]) -> str:
    """Measured sizes and, in italics, those on the line."""
    heads = [f"{ranks:,} ranks" for ranks in level.ranks] + [f"*{ranks:,}*" for ranks in larger]
    lines = [
        f"| {level.title}, {_steps(level.steps)} | {' | '.join(heads)} |",
        "|---" * (1 + len(heads)) + "|",
    ]
    for name in found[-1].figures:
        cells = [_figure(one.figures[name]) for one in found]
        cells += [f"*{_figure(one.figures[name])}*" for one in larger.values()]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines)


def day_of(ranks: int, one: Measured, step_s: float, real_bytes: int) -> Figures:
    """What a day takes of a job with steps of step_s seconds."""
    steps, bands, hosts = DAY_S / step_s, math.ceil(ranks / BAND), ranks / RANKS_PER_HOST
    merged = sum(
        bands * max(1, math.ceil(rows * steps / bands / ROWS_PER_FILE))
        for rows in one.rows.values()
    )
    return {
        "files, GB": one.figures[STEP_MB] * steps / 1e3,
        f"files, GB, at {real_bytes:,} bytes per rank and step": ranks * steps * real_bytes / 1e9,
        "index, GB": one.figures[INDEX_MB] * steps / 1e3,
        "bundles a second, nobody looks": hosts / IDLE_S,
        "bundles": hosts / IDLE_S * DAY_S,
        "files once all are merged": merged,
        "cores that indexing keeps busy": one.figures[CPU_S] / step_s,
    }


def days_table(sizes: dict[str, Figures]) -> str:
    """All reckoned."""
    lines = [
        f"| of a day | {' | '.join(sizes)} |",
        "|---" * (1 + len(sizes)) + "|",
    ]
    for name in next(iter(sizes.values())):
        cells = [f"*{_figure(of_size[name])}*" for of_size in sizes.values()]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _steps(number: int) -> str:
    return "1 step" if number == 1 else f"{number} steps"


def _figure(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}" if value >= 1 else f"{value:.3f}"


def report(folder: Path, asks: int, step_s: float, real_bytes: int) -> str:
    """Conditions and tables."""
    given = ", ".join(f"{k} {v}" for k, v in conditions().items() if k not in ("browser", "webgl"))
    parts, days = [given], {}
    for level in LEVELS:
        found = []
        for ranks in level.ranks:
            found.append(measured(folder / f"{level.level}-{ranks}", level, ranks, asks))
            print(level.level, ranks, found[-1].figures, flush=True)
        larger = {n: beyond(n, level, found) for n in TARGETS if n > level.ranks[-1]}
        parts.append(costs_table(level, found, larger))
        everything = dict(zip(level.ranks, found, strict=True)) | larger
        for ranks in TARGETS:
            day = day_of(ranks, everything[ranks], step_s, real_bytes)
            days[f"{ranks:,} ranks, {level.title}"] = day
    return "\n\n".join([*parts, f"Steps of {step_s:g} s:", days_table(days)])


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--step-s", type=float, default=10.0, help="of a day (%(default)s)")
    parser.add_argument(
        "--real-bytes", type=int, default=2_441, help="of a rank and step, by write_path.py"
    )
    parser.add_argument("--asks", type=int, default=5, help="questions of each kind (%(default)s)")
    parser.add_argument("--write", type=Path, help="page whose tables are replaced")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        text = report(Path(name), options.asks, options.step_s, options.real_bytes)
    print(text)
    if options.write is not None:
        write_part(options.write, BEGIN, END, text)


if __name__ == "__main__":
    main()
