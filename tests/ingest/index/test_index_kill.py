"""SIGKILL of the indexer at random moments while segments arrive and are merged."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
import time

import pytest

from ingest.run import open_run
from tests.folders import REPO
from tests.runs_builder import RunBuilder

ROUNDS = int(os.environ.get("KILL_ROUNDS", "1"))
NUM_RANKS = 2


def write_segments(builder: RunBuilder, stop: threading.Event) -> int:
    """Publish segments until `stop` is set; returns the number of steps written."""
    number = 0
    while not stop.is_set():
        for rank in range(NUM_RANKS):
            t = number * 100.0
            builder.step(rank, number, t, t + 100)
            builder.span(rank, number, "forward", t, t + 60)
            builder.span(rank, number, "backward", t + 60, t + 100)
        builder.publish()
        number += 1
        time.sleep(0.05)
    return number


@pytest.mark.kill
@pytest.mark.parametrize("seed", range(ROUNDS))
def test_a_killed_indexer_loses_and_doubles_nothing(tmp_path, seed):
    rng = random.Random(seed)
    builder = RunBuilder(tmp_path / "run", NUM_RANKS)
    builder.rank_files()
    stop = threading.Event()
    written: list[int] = []
    writer = threading.Thread(target=lambda: written.append(write_segments(builder, stop)))
    writer.start()
    try:
        for _ in range(3):
            process = subprocess.Popen(
                [sys.executable, "-m", "tests.ingest.index.index_forever", str(builder.folder)],
                cwd=REPO,
                stdout=subprocess.PIPE,
            )
            assert process.stdout is not None
            assert process.stdout.readline() == b"ready\n"
            time.sleep(rng.uniform(0.0, 0.5))
            process.send_signal(signal.SIGKILL)
            process.wait()
            process.stdout.close()
    finally:
        stop.set()
        writer.join()
    (num_steps,) = written
    assert num_steps > 5
    with open_run(builder.folder) as run:
        assert run.problems == []
        counted = run.sql(
            "SELECT rank, step, count(*) AS n, count(DISTINCT ts_ns) AS d FROM spans"
            " GROUP BY rank, step ORDER BY rank, step"
        ).to_pylist()
        expected = [
            {"rank": rank, "step": step, "n": 2, "d": 2}
            for rank in range(NUM_RANKS)
            for step in range(num_steps)
        ]
        assert counted == expected
        steps = run.sql("SELECT rank, step, compute_ns FROM step_rollup ORDER BY 1, 2").to_pylist()
        assert steps == [
            {"rank": rank, "step": step, "compute_ns": 100_000}
            for rank in range(NUM_RANKS)
            for step in range(num_steps)
        ]
    assert not list((builder.folder / "compacted").glob(".*"))
