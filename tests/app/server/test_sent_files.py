"""Ranks that share no disk with the server: their files come by the socket, each once."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from ingest.store import open_run
from tests.app.server.ranks import JOB_TOKEN, wait_until
from tests.app.server.test_live_jobs import port, runs, serving
from tests.trace_hooks.processes import begin

__all__ = ["port", "runs"]
ROUNDS = int(os.environ.get("KILL_ROUNDS", "2"))

TRAIN = """
import sys, time
import trace_hooks as th

tracer = th.start(run="job")
print("ready", flush=True)
step = 0
while not sys.stdin.closed and step < int(sys.argv[1]):
    with tracer.step():
        for _ in range(20):
            with tracer.span("work"):
                pass
        time.sleep(0.01)
    step += 1
tracer.stop()
"""


@pytest.mark.kill
def test_nothing_is_lost_or_doubled_when_the_server_is_killed_again_and_again(
    tmp_path: Path, runs: Path, port: int
) -> None:
    node = tmp_path / "node"
    node.mkdir()
    num_steps = 250 * (ROUNDS + 1)
    with serving(runs, port) as server:
        job = begin(
            node, TRAIN, str(num_steps), TRACE_HOOKS_SHIP="1", TRACE_HOOKS_TOKEN=JOB_TOKEN,
            TRACE_HOOKS_SERVER=f"ws://127.0.0.1:{port}",
        )  # fmt: skip
        try:
            for number in range(ROUNDS):
                wait_until(lambda: list((runs / "job").glob("s*/*.parquet")))
                time.sleep(0.1 * number)
                server.start_again()
            _, err = job.communicate(timeout=120)
        finally:
            job.kill()
            job.wait()
        assert job.returncode == 0, err
        assert "not all files could be sent" not in err
    assert not list((node / "runs" / "job" / "segments").glob("[!.]*"))  # all were taken
    with open_run(runs / "job") as run:
        steps = run.sql("SELECT step FROM steps ORDER BY step").column("step").to_pylist()
        spans = run.sql("SELECT count(*) AS n FROM spans WHERE name = 'work'").to_pylist()
        assert steps == list(range(num_steps))
        assert spans == [{"n": 20 * num_steps}]
        assert run.state == "finished"
