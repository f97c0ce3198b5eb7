"""Real ranks of one host and a real server: one connection for all, until the relay is killed."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from ingest.run import open_run
from tests.app.live.test_connected_ranks import Server, port, runs, serving
from tests.app.server.ranks import JOB_TOKEN
from tests.app.server.served import ask
from tests.trace_hooks.processes import begin, rows
from tests.trace_hooks.test_kill_collector import collector_of
from tests.waiting import wait_until

__all__ = ["port", "runs"]
pytestmark = pytest.mark.long
NUM = 4
LEARN_S = 600.0
"""A job of a few seconds, on a machine that does much else."""

TRAIN = """
import os, time
from pathlib import Path
import trace_hooks as th
from trace_hooks.agent import connection, opening
from trace_hooks.job import rendezvous

opening.OPEN_S = opening.START_S = 120.0  # on a busy machine a relay answers late, too
rendezvous.GROUP_WAIT_S = 0.0  # these ranks make no process group
connection.LONGEST_PAUSE_S = 0.5  # between tries to reach a server that is away
tracer = th.start(run="job")
tracer.context.live.commands.register("pid", lambda _value: str(os.getpid()))
while not Path("stop").exists():
    with tracer.step():
        time.sleep(0.02)
"""

LEARN = """
import os, sys, torch, torch.distributed as dist
import trace_hooks as th
from torch import nn
torch.set_num_threads(1)
rank = int(os.environ["RANK"])
tracer = th.start(run="job") if sys.argv[2] == "traced" else None
dist.init_process_group("gloo", init_method=f"file://{sys.argv[1]}", rank=rank, world_size=2)
torch.manual_seed(rank)
model = nn.parallel.DistributedDataParallel(nn.Linear(64, 64))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
losses = []
for step in range(100):
    loss = model(torch.randn(8, 64)).square().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    losses.append(loss.item().hex())
dist.destroy_process_group()
print(losses)
"""


@contextmanager
def host(folder: Path, port: int, **environ: str) -> Iterator[list[subprocess.Popen[str]]]:
    """Ranks of one job on this host; rank 0 is the first, as it decides which attempt this is."""
    job: list[subprocess.Popen[str]] = []
    try:
        for rank in range(NUM):
            job.append(
                begin(
                    folder,
                    TRAIN,
                    TRACE_HOOKS_SERVER=f"ws://127.0.0.1:{port}",
                    TRACE_HOOKS_TOKEN=JOB_TOKEN,
                    TRACE_HOOKS_TELEMETRY="0",
                    WORLD_SIZE=str(NUM),
                    RANK=str(rank),
                    LOCAL_RANK=str(rank),
                    **environ,
                )
            )
            wait_until(lambda: (folder / "runs/job/attempts/0000").exists())
        yield job
    finally:
        for process in job:
            process.kill()
            process.communicate()


def num_sockets(server: Server) -> int:
    """WebSockets of hosts and ranks that are open at the server."""
    lines = ask(server.address, "/metrics")[1].decode().splitlines()
    (value,) = (line.split()[1] for line in lines if line.startswith("rankscope_rank_sockets "))
    return int(value)


def are_connected(server: Server, sockets: int) -> bool:
    return bool(server.state().get("connected") == NUM and num_sockets(server) == sockets)


def pids(server: Server) -> list[int]:
    """What each rank answers to a command."""
    answer: dict[str, Any] = server.command({"name": "pid"})
    assert [ack["rank"] for ack in answer["acks"]] == list(range(NUM))
    return [int(ack["text"]) for ack in answer["acks"]]


def test_ranks_of_a_host_have_one_connection_and_each_its_own_once_the_relay_is_killed(
    tmp_path: Path, runs: Path, port: int
) -> None:
    with host(tmp_path, port) as job:
        own = [process.pid for process in job]
        with serving(runs, port) as server:
            wait_until(lambda: are_connected(server, sockets=1))
            assert pids(server) == own
            server.start_again()
            wait_until(lambda: are_connected(server, sockets=1))
            assert pids(server) == own
            relay = collector_of(tmp_path)
            assert relay is not None
            os.kill(relay, signal.SIGKILL)
            wait_until(lambda: are_connected(server, sockets=NUM))
            assert pids(server) == own
            (tmp_path / "stop").touch()
            for process in job:
                out, error = process.communicate(timeout=60)
                assert process.returncode == 0, out + error
            wait_until(lambda: server.state()["ended"] == NUM)
    steps = [(row["rank"], row["step"]) for row in rows(tmp_path, "steps")]
    assert len(steps) == len(set(steps))
    for rank in range(NUM):
        found = sorted(step for of, step in steps if of == rank)
        assert found == list(range(len(found)))


def test_files_of_ranks_pass_through_the_relay_and_its_death_loses_none(
    tmp_path: Path, runs: Path, port: int
) -> None:
    node = tmp_path / "node"
    node.mkdir()
    with host(node, port, TRACE_HOOKS_SHIP="1") as job, serving(runs, port) as server:
        wait_until(lambda: list((runs / "job").glob("segments/*.parquet")))
        assert num_sockets(server) == 1
        server.process.send_signal(signal.SIGSTOP)  # it acknowledges nothing
        wait_until(lambda: list((node / "runs/job/segments").glob("*.parquet")))
        relay = collector_of(node)
        assert relay is not None
        os.kill(relay, signal.SIGKILL)
        server.process.send_signal(signal.SIGCONT)
        wait_until(lambda: are_connected(server, sockets=NUM))
        (node / "stop").touch()
        for process in job:
            out, error = process.communicate(timeout=60)
            assert process.returncode == 0, out + error
            assert "not all files could be sent" not in error
        wait_until(lambda: server.state()["ended"] == NUM)
    with open_run(runs / "job") as run:
        found = run.sql("SELECT rank, step FROM steps ORDER BY rank, step").to_pylist()
    for rank in range(NUM):
        steps = [row["step"] for row in found if row["rank"] == rank]
        assert steps == list(range(len(steps)))
        assert steps


def test_without_a_collector_each_rank_has_its_own_connection(
    tmp_path: Path, runs: Path, port: int
) -> None:
    with host(tmp_path, port, TRACE_HOOKS_COLLECTOR="0") as job, serving(runs, port) as server:
        wait_until(lambda: are_connected(server, sockets=NUM))
        assert pids(server) == [process.pid for process in job]


def losses(folder: Path, port: int, way: str) -> list[str]:
    """Losses of both ranks of a job that trains."""
    folder.mkdir()
    job = [
        begin(
            folder,
            LEARN,
            str(folder / "store"),
            way,
            TRACE_HOOKS_SERVER=f"ws://127.0.0.1:{port}",
            TRACE_HOOKS_TOKEN=JOB_TOKEN,
            TRACE_HOOKS_SOURCES="modules,optimizer,collectives,inspection",
            WORLD_SIZE="2",
            RANK=str(rank),
            LOCAL_RANK=str(rank),
        )
        for rank in range(2)
    ]
    try:
        found = [process.communicate(timeout=LEARN_S) for process in job]
    finally:
        for process in job:
            process.kill()
            process.wait()
    assert [process.returncode for process in job] == [0, 0], found
    return [out for out, _ in found]


@pytest.mark.torch
def test_losses_are_those_of_a_job_without_hooks(tmp_path: Path, runs: Path, port: int) -> None:
    with serving(runs, port) as server:
        traced = losses(tmp_path / "traced", port, "traced")
        wait_until(lambda: server.state()["ended"] == 2)
    assert traced == losses(tmp_path / "plain", port, "plain")
