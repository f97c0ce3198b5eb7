"""Mutated files through the processes of an import: `python -m tests.hostile.fuzz --pool`.

Batches of files of one format are read by several processes at once, as users' imports are, with
10 s for each file; the processes end themselves where they write, start or reach out (see
guarded_worker). What ends one of them, or the pool, is wrong.
"""

from __future__ import annotations

import os
import random
import re
import shutil
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from unittest import mock

from ingest.errors import UserError
from ingest.imports import pool
from ingest.imports.preview import Showing
from ingest.limits import limits
from tests.folders import REPO
from tests.hostile.fuzz.mutations import mutated
from tests.hostile.fuzz.worker import LIMIT_BYTES

BATCH = 16
LIMIT_S = 10
_LOST = re.compile(r"the reader (ended with|was stopped after|needed more than)")
_MIXED = "import each format by itself"


@dataclass
class PoolReport:
    """What a campaign found."""

    seed: int
    num_files: dict[str, int] = field(default_factory=dict)
    num_problems: int = 0
    wrong: list[str] = field(default_factory=list)

    def lines(self) -> Iterator[str]:
        """The report for people."""
        total = sum(self.num_files.values())
        yield (
            f"{total:,} files in batches of {BATCH} through {pool.num_cores()} processes, random "
            f"seed {self.seed}; {LIMIT_S} s allowed for each"
        )
        yield ", ".join(f"{name} {number:,}" for name, number in sorted(self.num_files.items()))
        yield f"problems reported: {self.num_problems:,}"
        yield f"crashes, hangs, escapes and other wrong ends: {len(self.wrong)}"
        yield from (f"WRONG: {text}" for text in self.wrong)


@contextmanager
def guarded(folder: Path, limit_s: int = LIMIT_S) -> Iterator[None]:
    """Read by guarded processes, also small files by several, with this many seconds for each."""
    command = [sys.executable, "-m", "tests.hostile.fuzz.guarded_worker", str(folder)]
    path = os.pathsep.join([str(REPO), *sys.path])
    bounds = {
        "RANKSCOPE_MAX_FILE_SECONDS": str(limit_s),
        "PYTHONPATH": path,
        "RANKSCOPE_MAX_READER_MIB": str(LIMIT_BYTES >> 20),
    }
    limits.cache_clear()
    with (
        mock.patch.dict(os.environ, bounds),
        mock.patch.object(pool, "worker_command", return_value=command),
        mock.patch.object(pool, "_BYTES_PER_PROCESS", 1),
    ):
        yield
    limits.cache_clear()


def problems_of(files: Sequence[Path], folder: Path) -> list[str]:
    """All problems that an import of these files reports; `folder` is used and removed again."""
    found, run = (folder / name for name in ("reading", "run"))
    for place in (found, run):
        place.mkdir(parents=True)
    try:
        with pool.Pool(files, found, lambda *_: None, Showing(folder, "run")) as reading:
            return reading.put_together(reading.read(), run).problems
    except UserError as error:
        if _MIXED in str(error) and len(files) > 1:
            shutil.rmtree(folder)
            return [problem for file in files for problem in problems_of([file], folder)]
        return [str(error)]
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def judge(files: Sequence[Path], folder: Path, report: PoolReport) -> None:
    """Import a batch and note what went wrong."""
    try:
        problems = problems_of(files, folder)
    except Exception as error:  # noqa: BLE001  # what is looked for
        report.wrong.append(f"{files[0].parent}: {type(error).__name__}: {error}"[:300])
        return
    report.num_problems += len(problems)
    for problem in problems:
        if _LOST.search(problem):
            report.wrong.append(problem)
        elif not problem.isprintable():
            report.wrong.append(f"{files[0].parent}: a problem that is no sentence")


def campaign(per_format: int, seed: int, folder: Path, only: str = "") -> PoolReport:
    """Import this many mutated files of each format; batches that end wrongly stay in `folder`."""
    from tests.hostile.fuzz.seeds import seeds

    rng = random.Random(seed)
    report = PoolReport(seed)
    with guarded(folder):
        for name, seeds_of in seeds().items():
            others = [content for _, content in seeds_of if content]
            if not others or only not in name:
                continue
            for first in range(0, per_format, BATCH):
                batch = folder / f"{name}-{first}"
                files = []
                for number in range(first, min(first + BATCH, per_format)):
                    file_name, content = seeds_of[number % len(seeds_of)]
                    files.append(batch / str(number) / file_name)
                    files[-1].parent.mkdir(parents=True)
                    files[-1].write_bytes(mutated(content, others, rng))
                num_wrong = len(report.wrong)
                judge(files, folder / "import", report)
                report.num_files[name] = report.num_files.get(name, 0) + len(files)
                if len(report.wrong) == num_wrong:
                    shutil.rmtree(batch)
    return report
