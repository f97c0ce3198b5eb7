"""Mutated files of every format, imported by a worker under limits: `python -m tests.hostile.fuzz`.

A worker has bounded memory and 10 s per file. It must end each file as a run or as one sentence; it
must not crash, hang, write outside its folder, start anything or reach for the network. What a
reader lets through to the boundary in ingest/imports/parts.py is counted by its type.
"""

from __future__ import annotations

import argparse
import json
import random
import select
import shutil
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.folders import REPO
from tests.hostile.fuzz import pool
from tests.hostile.fuzz.mutations import mutated
from tests.hostile.fuzz.worker import ESCAPED, LIMIT_BYTES

LIMIT_S = 10.0
LEAST_KNOWN = 1 / 3
"""Share of each format's files that some reader must take for its own: others test little."""
_READER_FAILED = "reader failed on it ("


class Worker:
    """A process that imports files, started again whenever it is lost."""

    def __init__(self, folder: Path, limit_s: float = LIMIT_S) -> None:
        self._folder = folder
        self.limit_s = limit_s
        self._process: subprocess.Popen[str] | None = None

    def run(self, path: Path) -> dict[str, Any]:
        """How one file ends; `end` is run, refused, or what went wrong."""
        process = self._process or self._started()
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(f"{path}\n")
        process.stdin.flush()
        ready, _, _ = select.select([process.stdout], [], [], self.limit_s)
        line = process.stdout.readline() if ready else ""
        if line:
            content: dict[str, Any] = json.loads(line)
            return content
        if ready:
            status = process.wait()
            end = "escape" if status == ESCAPED else f"crash (status {status})"
        else:
            end = f"hang (over {self.limit_s} s)"
        self.close()
        return {"known": True, "end": end, "failures": [], "peak_mib": 0}

    def _started(self) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "tests.hostile.fuzz.worker", str(self._folder)]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=REPO
        )
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == "ready\n"  # starting is no file's fault
        return self._process

    def close(self) -> None:
        """End the process, however it is."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            for stream in (self._process.stdin, self._process.stdout):
                if stream is not None:
                    stream.close()
            self._process = None


@dataclass
class Tally:
    """What became of the files of one format."""

    num_files: int = 0
    num_known: int = 0
    num_runs: int = 0
    num_refused: int = 0
    slowest_s: float = 0.0

    def line(self, name: str) -> str:
        """One row of the report."""
        share = 100 * self.num_known / max(self.num_files, 1)
        return (
            f"| {name:18} | {self.num_files:6,} | {share:3.0f} % | {self.num_runs:5,} |"
            f" {self.num_refused:5,} | {self.slowest_s:5.2f} s |"
        )


@dataclass
class Report:
    """What a campaign found."""

    seed: int
    tallies: dict[str, Tally] = field(default_factory=lambda: defaultdict(Tally))
    peak_mib: int = 0
    failures: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    wrong: list[str] = field(default_factory=list)

    @property
    def too_strange(self) -> list[str]:
        """Formats of whose files too few are recognised."""
        tallies = self.tallies.items()
        return [name for name, one in tallies if one.num_known < LEAST_KNOWN * one.num_files]

    def lines(self) -> Iterator[str]:
        """The report for people."""
        total = sum(tally.num_files for tally in self.tallies.values())
        yield f"{total:,} files, random seed {self.seed}; {LIMIT_S:.0f} s allowed for each"
        yield f"peak memory of a worker {self.peak_mib} MiB of {LIMIT_BYTES >> 20:,} allowed"
        yield "| mutated | files | recognised | runs | refused | slowest |"
        yield "|---|---|---|---|---|---|"
        yield from (tally.line(name) for name, tally in sorted(self.tallies.items()))
        yield f"crashes, hangs, escapes and other wrong ends: {len(self.wrong)}"
        for kind, examples in sorted(self.failures.items()):
            yield f"let through to the boundary: {len(examples)} x {kind}, such as {examples[0]}"
        yield from (f"WRONG: {text}" for text in self.wrong)
        yield from (f"WRONG: less than a third of {name} recognised" for name in self.too_strange)


def campaign(per_format: int, seed: int, folder: Path, only: str = "") -> Report:
    """Import this many mutated files of each format; files that end wrongly stay in `folder`."""
    from tests.hostile.fuzz.seeds import seeds

    rng = random.Random(seed)
    report = Report(seed)
    work = folder / "work"
    work.mkdir(parents=True)
    one = Worker(work)
    try:
        for name, files in seeds().items():
            others = [content for _, content in files if content]
            for number in range(per_format if others and only in name else 0):
                file_name, content = files[number % len(files)]
                path = work / f"{name}-{number}" / file_name
                path.parent.mkdir()
                path.write_bytes(mutated(content, others, rng))
                _one(one, name, path, report, folder)
                shutil.rmtree(path.parent)
    finally:
        one.close()
    return report


def _one(one: Worker, name: str, path: Path, report: Report, folder: Path) -> None:
    begin_s = time.perf_counter()
    result = one.run(path)
    tally, end = report.tallies[name], result["end"]
    tally.slowest_s = max(tally.slowest_s, time.perf_counter() - begin_s)
    report.peak_mib = max(report.peak_mib, result["peak_mib"])
    tally.num_files += 1
    tally.num_known += bool(result["known"])
    tally.num_runs += end == "run"
    tally.num_refused += end == "refused"
    for failure in result["failures"]:
        reason = failure.partition(_READER_FAILED)[2] or failure
        report.failures[f"{name} {reason[:60]}"].append(failure)
    if end not in ("run", "refused"):
        kept = folder / f"{path.parent.name}-{path.name}"
        kept.write_bytes(path.read_bytes())
        report.wrong.append(f"{kept}: {end}")


def main() -> int:
    """Run a campaign and print its report; exit code 1 where anything went wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--per-format", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6))
    parser.add_argument("--only", default="", help="formats whose name holds this")
    parser.add_argument("--pool", action="store_true", help="many at once, as imports read them")
    given = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="rankscope-fuzz-"))
    print(f"random seed {given.seed}", flush=True)
    run = pool.campaign if given.pool else campaign
    report = run(given.per_format, given.seed, folder, given.only)
    print("\n".join(report.lines()))
    if not report.wrong:
        shutil.rmtree(folder)
    is_strange = isinstance(report, Report) and report.too_strange
    return 1 if report.wrong or is_strange else 0
