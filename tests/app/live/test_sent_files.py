"""Ranks that share no disk with the server: their files come by the socket, each once.

Without telemetry: the last samples of a host may stay on it.
"""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

import pytest

from ingest.run import open_run
from tests.app.live.test_connected_ranks import connected, port, runs, serving
from tests.app.server.ranks import JOB_TOKEN
from tests.trace_hooks.processes import begin
from tests.waiting import wait_until

__all__ = ["port", "runs"]
AGAIN_S = 90.0
ROUNDS = int(os.environ.get("KILL_ROUNDS", "2"))

TRAIN = """
import time
from pathlib import Path
import trace_hooks as th
from trace_hooks.agent import connection

connection.LONGEST_PAUSE_S = 0.5  # between tries to reach a server that is away
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


@pytest.mark.long
@pytest.mark.kill
def test_nothing_is_lost_or_doubled_when_the_server_is_killed_again_and_again(
    tmp_path: Path, runs: Path, port: int
) -> None:
    node = tmp_path / "node"
    node.mkdir()
    with serving(runs, port) as server:
        job = begin(
            node,
            TRAIN,
            TRACE_HOOKS_SHIP="1",
            TRACE_HOOKS_TELEMETRY="0",
            TRACE_HOOKS_TOKEN=JOB_TOKEN,
            TRACE_HOOKS_SERVER=f"ws://127.0.0.1:{port}",
        )
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
    left = (node / "runs" / "job" / "segments").glob("[!.]*")
    assert [
        path.name for path in left if not path.name.startswith("looks-")
    ] == []  # all were taken
    with open_run(runs / "job") as run:
        steps = run.sql("SELECT step FROM steps ORDER BY step").column("step").to_pylist()
        spans = run.sql("SELECT count(*) AS n FROM spans WHERE name = 'work'").to_pylist()
        assert steps == list(range(num_steps))
        assert spans == [{"n": 20 * num_steps}]
        assert run.state == "finished"


def shipping(node: Path, port: int, code: str = TRAIN, **environ: str) -> subprocess.Popen[str]:
    """A job on a node of its own, whose files go to the server."""
    node.mkdir(exist_ok=True)
    (node / "stop").unlink(missing_ok=True)
    return begin(
        node,
        code,
        TRACE_HOOKS_SHIP="1",
        TRACE_HOOKS_TELEMETRY="0",
        TRACE_HOOKS_TOKEN=JOB_TOKEN,
        TRACE_HOOKS_SERVER=f"ws://127.0.0.1:{port}",
        **environ,
    )


def ended(job: subprocess.Popen[str]) -> str:
    """What a job wrote to stderr until its end."""
    try:
        _, err = job.communicate(timeout=120)
    finally:
        job.kill()
        job.wait()
    assert job.returncode == 0, err
    return err


@pytest.mark.long
def test_a_restart_goes_on_with_its_run_and_a_stranger_of_that_name_does_not(
    tmp_path: Path, runs: Path, port: int
) -> None:
    own, other = tmp_path / "own", tmp_path / "other"
    with serving(runs, port) as server:
        for number in range(2):
            job = shipping(own, port)
            wait_until(
                lambda number=number: (runs / "job" / "ranks" / f"{number:04d}-00000.json").exists()
            )  # type: ignore[misc]
            (own / "stop").touch()
            assert "not all files" not in ended(job)
            server.start_again()
        job = shipping(other, port)
        wait_until(lambda: list(other.glob("runs/job/segments/*.parquet")))
        time.sleep(2.0)  # the server refuses it at its first connection
        (other / "stop").touch()
        err = ended(job)
    assert "this run is another job's; keep TRACE_HOOKS_FOLDER across restarts" in err
    assert "they wait in the run's folder" in err
    with open_run(runs / "job") as run:
        assert run.attempts == [0, 1]
        assert run.problems == []


SLOW_DISK = """
import time
import trace_hooks as th
from pathlib import Path
from trace_hooks import tracer_parts
from trace_hooks.recording.segment_writer import SegmentWriter

tracer_parts.STOP_TIMEOUT_S = 0.1
tracer, write = th.start(run="job"), SegmentWriter.write

def write_slowly(*given):
    time.sleep(2.0)
    write(*given)

with tracer.step():
    pass
while not Path("stop").exists():
    time.sleep(0.1)
SegmentWriter.write = write_slowly
with tracer.step():
    pass
tracer.stop()
while not tracer._recording._drain.finished.wait(0.1):
    pass
"""


@pytest.mark.long
def test_what_a_slow_disk_writes_after_the_end_goes_with_the_next_start(
    tmp_path: Path, runs: Path, port: int
) -> None:
    node = tmp_path / "node"
    with serving(runs, port):
        for number, code in enumerate((SLOW_DISK, TRAIN)):
            job = shipping(node, port, code)
            try:
                came = f"segments/steps-{number:04d}-*"
                wait_until(lambda came=came: list((runs / "job").glob(came)))  # type: ignore[misc]
            finally:
                (node / "stop").touch()
                ended(job)
    with open_run(runs / "job") as run:
        steps = run.sql("SELECT step FROM steps WHERE attempt = 0 ORDER BY step").to_pylist()
        assert steps == [{"step": 0}, {"step": 1}]
        assert run.attempts == [0, 1]
        assert run.problems == []


NODES = """
import os, sys, time
import torch, torch.distributed as dist
import trace_hooks as th

torch.set_num_threads(1)
rank = int(os.environ["RANK"])
tracer = th.start(layout={"dp": 2})
dist.init_process_group("gloo", init_method=f"file://{sys.argv[1]}", rank=rank, world_size=2)
for number in range(20):
    with tracer.step(number):
        dist.all_reduce(torch.ones(8))
        time.sleep(0.05)
dist.barrier()
tracer.stop()
dist.destroy_process_group()
"""


@pytest.mark.long
@pytest.mark.torch
def test_ranks_of_nodes_that_share_no_disk_share_the_secret_of_their_run(
    tmp_path: Path, runs: Path, port: int
) -> None:
    with serving(runs, port):
        jobs = []
        for rank in range(2):
            node = tmp_path / f"node{rank}"
            node.mkdir()
            jobs.append(
                begin(
                    node,
                    NODES,
                    str(tmp_path / "store"),
                    TRACE_HOOKS_SHIP="1",
                    TRACE_HOOKS_TELEMETRY="0",
                    WORLD_SIZE="2",
                    RANK=str(rank),
                    LOCAL_RANK="0",
                    TRACE_HOOKS_TOKEN=JOB_TOKEN,
                    TRACE_HOOKS_SERVER=f"ws://127.0.0.1:{port}",
                )
            )
        for job in jobs:
            assert "not all files" not in ended(job)
    (folder,) = runs.iterdir()
    assert not (tmp_path / "node1" / "runs" / folder.name / "job-secret").exists()
    with open_run(folder) as run:
        rows = run.sql("SELECT rank, count(*) AS n FROM steps GROUP BY rank ORDER BY rank")
        assert rows.to_pylist() == [{"rank": rank, "n": 20} for rank in range(2)]
        assert run.state == "finished"
