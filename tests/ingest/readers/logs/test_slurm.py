"""Slurm: a file per task, a file with srun's labels, and what slurmstepd says."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.ingest.readers.logs.log_files import (
    TRACEBACK,
    column,
    imported_lines,
    lines_of,
    write_logs,
)
from tests.reader_results import Imported

LOG = "2026-04-13 16:50:00 step 1"


def test_a_file_per_task(folder: Path, runs: Path) -> None:
    logs = {f"slurm-881234_{task}.out": f"{LOG}\n" for task in range(3)}
    lines = imported_lines(folder, runs, logs)
    assert column(lines, "rank", "stream") == [(0, "stdout"), (1, "stdout"), (2, "stdout")]


@pytest.mark.parametrize("name", ["{host}-{task}.out", "train-881234-{host}-{task}.out"])
def test_files_by_host_and_task(folder: Path, runs: Path, name: str) -> None:
    """srun --output=%N-%t.out, train-%j-%N-%t.out: numbers that count from 0 on are ranks."""
    placed = [("gpu-node011", 0), ("gpu-node011", 1), ("gpu-node012", 2), ("gpu-node012", 3)]
    logs = {name.format(host=host, task=task): f"{LOG}\n" for host, task in placed}
    logs |= {file.replace(".out", ".err"): text for file, text in logs.items()}
    run = Imported(write_logs(folder, logs), into=runs)
    assert sorted(column(lines_of(run), "host", "rank")) == sorted(2 * placed)
    assert {rank: info["host"] for rank, info in run.ranks.items()} == {r: h for h, r in placed}
    assert any("ranks of 8 logs are the last number" in guess for guess in run.guesses)


@pytest.mark.parametrize(
    "names",
    [
        ("node-0.log", "node-1.log"),
        ("epoch-0.out", "epoch-1.out"),
        ("job-4711.out", "job-4712.out"),
        ("a-0.out", "a-2.out"),
        ("a-0.out", "b-0.out"),
        ("train-7.out",),
    ],
)
def test_other_numbers_are_no_ranks(folder: Path, runs: Path, names: tuple[str, ...]) -> None:
    lines = imported_lines(folder, runs, dict.fromkeys(names, f"{LOG}\n"))
    assert set(column(lines, "rank")) == {-1}


def test_numbers_of_files_that_hold_lines_of_other_ranks_are_no_ranks(
    folder: Path, runs: Path
) -> None:
    """A file per host, numbered by host: its lines say so."""
    logs = {
        f"train-{n}.out": f"[rank{4 * n}]: {LOG}\n[rank{4 * n + 1}]: {LOG}\nx {LOG}\n"
        for n in (0, 1)
    }
    lines = imported_lines(folder, runs, logs)
    assert column(lines, "rank") == [0, 1, -1, 4, 5, -1]


def test_labels_of_srun(folder: Path, runs: Path) -> None:
    """Tracebacks of two ranks, line by line in turn, become a row of each."""
    first, second = (f"{TRACEBACK}{end}".split("\n") for end in (" on 3", " on 11"))
    lines = ["srun: job 881234 started"]
    for ours, theirs in zip(first, second, strict=True):
        lines += [f" 3: {ours}", f"11: {theirs}"]
    lines += [f"{task}: {LOG}" for task in range(2, 12)]
    kept = imported_lines(folder, runs, {"slurm-881234.out": "\n".join(lines)})
    assert column(kept, "rank", "line", "text")[:3] == [
        (-1, 1, "srun: job 881234 started"),
        (3, 2, f"{TRACEBACK} on 3"),
        (11, 3, f"{TRACEBACK} on 11"),
    ]
    assert column(kept, "rank", "text")[3:] == [(task, LOG) for task in range(2, 12)]


def test_lines_that_begin_with_a_number_are_no_labels(folder: Path, runs: Path) -> None:
    text = f"Classes:\n0: cat\n1: dog\n{LOG}\n{LOG}2\n{LOG}3\n"
    assert set(column(imported_lines(folder, runs, {"a.log": text}), "rank")) == {-1}


def test_the_scheduler_has_no_rank(folder: Path, runs: Path) -> None:
    text = (
        "slurmstepd: error: *** JOB 881234 ON gpu-node011 CANCELLED AT 2026-04-13T16:51:20 DUE TO "
        "TIME LIMIT ***\n"
    )
    (line,) = imported_lines(folder, runs, {"slurm-881234.out": text})
    assert (line.rank, line.ts_ns, line.label) == (-1, 1776099080 * 10**9, "time_limit")
