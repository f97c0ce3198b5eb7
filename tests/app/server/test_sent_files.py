"""Ranks that share no disk with the server: their files come by the socket, each once."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from ingest.store import open_run
from tests.app.server.ranks import JOB_TOKEN, wait_until
from tests.app.server.test_live_jobs import connected, port, runs, serving
from tests.trace_hooks.processes import begin

__all__ = ["port", "runs"]
AGAIN_S = 90.0
ROUNDS = int(os.environ.get("KILL_ROUNDS", "2"))

TRAIN = """
import time
from pathlib import Path
import trace_hooks as th
from trace_hooks import agent

agent.LONGEST_PAUSE_S = 0.5  # between tries to reach a server that is away
tracer, step = th.start(run="job"), 0
while not Path("stop").exists():
    with tracer.step():
        for _ in range(20):
            with tracer.span("work"):
                pass
        time.sleep(0.02)
    step += 1
tracer.stop()
print(step)
"""


@pytest.mark.kill
def test_nothing_is_lost_or_doubled_when_the_server_is_killed_again_and_again(
    tmp_path: Path, runs: Path, port: int
) -> None:
    node = tmp_path / "node"
    node.mkdir()
    with serving(runs, port) as server:
        job = begin(
            node, TRAIN, TRACE_HOOKS_SHIP="1", TRACE_HOOKS_TOKEN=JOB_TOKEN,
            TRACE_HOOKS_SERVER=f"ws://127.0.0.1:{port}",
        )  # fmt: skip
        try:
            wait_until(lambda: list((runs / "job").glob("segments/*.parquet")))
            for number in range(ROUNDS):
                time.sleep(0.1 * number)  # not always at the same moment
                server.start_again()
                wait_until(lambda: connected(server), AGAIN_S)
            (node / "stop").touch()
            out, err = job.communicate(timeout=120)
        finally:
            job.kill()
            job.wait()
        assert job.returncode == 0, err
        assert "not all files could be sent" not in err
    num_steps = int(out)
    assert not list((node / "runs" / "job" / "segments").glob("[!.]*"))  # all were taken
    with open_run(runs / "job") as run:
        steps = run.sql("SELECT step FROM steps ORDER BY step").column("step").to_pylist()
        spans = run.sql("SELECT count(*) AS n FROM spans WHERE name = 'work'").to_pylist()
        assert steps == list(range(num_steps))
        assert spans == [{"n": 20 * num_steps}]
        assert run.state == "finished"
