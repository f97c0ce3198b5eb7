"""SIGKILL of the indexer at random moments while it takes in, merges or removes segments."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
import threading
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from ingest.index.indexer import Indexer
from ingest.run import Run, open_run
from ingest.run_folder.retention_file import Retention, write_retention
from ingest.run_folder.step_ranges import StepRange
from tests.folders import REPO
from tests.runs_builder import RunBuilder, table

ROUNDS = int(os.environ.get("KILL_ROUNDS", "1"))
NUM_RANKS = 2
NUM_STEPS = 40
TABLES = ("spans", "steps", "collectives", "memory", "groups", "marks")
DERIVED = ("step_rows", "step_rollup", "kind_rollup", "collective_rollup", "group_members", "ranks")
GONE = (StepRange(0, 0, 17), StepRange(0, 21, 30))

Rows = dict[str, list[dict[str, Any]]]


class Writer:
    """Publishes a segment per step, rank and table; `rows`: all that it wrote."""

    def __init__(self, folder: Path) -> None:
        self.builder = RunBuilder(folder, NUM_RANKS)
        self.builder.rank_files()
        self.builder.group(7, list(range(NUM_RANKS)), "dp")
        self.rows: Rows = defaultdict(list)
        self.num_steps = 0

    def write_step(self) -> None:
        step, run = self.num_steps, self.builder
        for rank in range(NUM_RANKS):
            t = step * 100.0
            run.step(rank, step, t, t + 100)
            run.span(rank, step, "forward", t, t + 60)
            run.span(rank, step, "backward", t + 60, t + 100)
            run.collective(rank, step, 7, step, t + 60 + rank, t + 90)
            run.add("memory", rank, step, ts_ns=step, rss=step)
            run.add("marks", rank, step, ts_ns=step, kind="note", text=f"{step}")
        for (name, _attempt, _rank), rows in run.rows.items():
            self.rows[name] += table(name, rows).to_pylist()
        run.publish()
        self.num_steps += 1

    def write_until(self, stop: threading.Event) -> None:
        while not stop.is_set():
            self.write_step()
            time.sleep(0.05)


def kill_indexers(folder: Path, rng: random.Random, most_s: float) -> None:
    """Start an indexer and kill it within most_s of its first pass, three times."""
    for _ in range(3):
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.ingest.index.index_forever", str(folder)],
            cwd=REPO,
            stdout=subprocess.PIPE,
        )
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        time.sleep(rng.uniform(0.0, most_s))
        process.kill()
        process.wait()
        process.stdout.close()


def in_order(rows: list[dict[str, Any]]) -> list[str]:
    return sorted(repr(row) for row in rows)


def check(folder: Path, expected: Rows, anew: Path) -> None:
    """Every row of every table once, and an index that the files give again."""
    with open_run(folder) as run:
        assert run.problems == []
        for name in TABLES:
            found = run.execute(f"SELECT * FROM {name}", {}).to_pylist()
            assert in_order(found) == in_order(expected[name]), name
    assert not list((folder / "compacted").glob(".*"))
    assert not list((folder / "index").glob(".*.tmp"))
    shutil.copytree(folder, anew, ignore=shutil.ignore_patterns("index"))
    with open_run(folder) as run, open_run(anew) as again:
        for name in DERIVED:
            assert derived(run, name) == derived(again, name), name
        assert len(derived(run, "step_rollup")) == len(expected["steps"])


def derived(run: Run, name: str) -> list[dict[str, Any]]:
    return run.index_rows(f"SELECT * FROM {name} ORDER BY ALL")


@pytest.mark.kill
@pytest.mark.parametrize("seed", range(ROUNDS))
def test_a_killed_indexer_loses_and_doubles_nothing(tmp_path: Path, seed: int) -> None:
    writer, stop = Writer(tmp_path / "run"), threading.Event()
    thread = threading.Thread(target=writer.write_until, args=(stop,))
    thread.start()
    try:
        kill_indexers(writer.builder.folder, random.Random(seed), 0.5)
    finally:
        stop.set()
        thread.join()
    assert writer.num_steps > 5
    check(writer.builder.folder, writer.rows, tmp_path / "anew")


@pytest.mark.long
@pytest.mark.kill
@pytest.mark.parametrize("seed", range(ROUNDS))
def test_a_killed_merger_loses_and_doubles_nothing(tmp_path: Path, seed: int) -> None:
    writer = Writer(tmp_path / "run")
    for _ in range(NUM_STEPS):
        writer.write_step()
    folder = writer.builder.folder
    with Indexer(folder) as indexer:
        indexer.refresh(merge=False)
    kill_indexers(folder, random.Random(seed), 1.5)
    check(folder, writer.rows, tmp_path / "anew")


@pytest.mark.long
@pytest.mark.kill
@pytest.mark.parametrize("seed", range(ROUNDS))
def test_a_killed_removal_takes_out_what_it_should_and_nothing_else(
    tmp_path: Path, seed: int
) -> None:
    writer = Writer(tmp_path / "run")
    for _ in range(NUM_STEPS):
        writer.write_step()
    folder = writer.builder.folder
    with Indexer(folder) as indexer:
        indexer.refresh(merge=seed % 2 == 0)
    write_retention(folder, Retention(removed=GONE))
    kill_indexers(folder, random.Random(seed), 1.5)
    left = {
        name: [row for row in rows if not any(s.first <= row["step"] <= s.last for s in GONE)]
        for name, rows in writer.rows.items()
    }
    check(folder, left, tmp_path / "anew")
