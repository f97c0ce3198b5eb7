"""Real self-tests of a few ranks over gloo: what is written, who is named, when they refuse."""

from __future__ import annotations

import os
import signal
import socket
import time
from pathlib import Path

import pytest

from app.analysis.diagnosis import diagnose_run
from app.views.selftest import selftest_of
from ingest.run import open_run
from tests.forks import Fork, ended, fork, succeeded
from tests.trace_hooks.processes import environment
from trace_hooks.job.process_info import host_name
from trace_hooks.schema import RankInfo, publish_json

pytestmark = pytest.mark.torch


def start(folder: Path, num_ranks: int, *options: str) -> list[Fork]:
    """Ranks of a self-test, two on each host."""
    with socket.create_server(("127.0.0.1", 0)) as found:
        port = found.getsockname()[1]
    job = environment(
        folder, WORLD_SIZE=str(num_ranks), MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port)
    )
    return [
        fork(
            folder / f"rank-{rank}",
            [
                *("-m", "trace_hooks.selftest.__main__", "--name", "test"),
                *("--host", f"host{rank // 2}", *options),
            ],
            job | {"RANK": str(rank), "LOCAL_RANK": str(rank % 2), "LOCAL_WORLD_SIZE": "2"},
        )
        for rank in range(num_ranks)
    ]


def test_four_ranks_on_two_hosts(tmp_path: Path) -> None:
    options = ("--budget-s", "8", "--message-mib", "1", "--samples", "5")
    first, *others = succeeded(start(tmp_path, 4, *options))
    assert "`rankscope selftest " in first.out
    assert {one.out for one in others} == {""}
    with open_run(tmp_path / "runs/test") as run:
        assert (run.state, run.info["source"]) == ("finished", "selftest")
        assert [info["host"] for info in run.ranks] == ["host0", "host0", "host1", "host1"]
        found = selftest_of(run, None)
        rows = run.ask("selftests").to_pylist()
        diagnose_run(run)
    measured = {one["test"]: one["number"] for one in found.tests if one["num_bytes"] != 1 << 16}
    assert measured["matmul"] == measured["memory"] == 4
    assert measured["mesh"] == measured["pair"] == 2
    assert measured["halves"] == 2
    assert all(row["seconds_min"] <= row["seconds_median"] for row in rows)
    assert found.notes == ()


@pytest.mark.long
def test_a_rank_that_hangs_is_named_and_holds_nobody_for_ever(tmp_path: Path) -> None:
    ranks = start(tmp_path, 4, "--budget-s", "60", "--timeout-s", "3", "--samples", "200")
    time.sleep(1.0)
    hung = ranks[3].process
    assert hung.pid is not None
    os.kill(hung.pid, signal.SIGSTOP)
    begun = time.monotonic()
    try:
        ends = ended(ranks[:3], seconds=200)
    finally:
        os.kill(hung.pid, signal.SIGKILL)
        hung.join()
    assert time.monotonic() - begun < 180
    assert {one.code for one in ends} <= {1, 2}
    assert "no answer from rank 3" in ends[0].err


def test_alone_it_measures_the_device(tmp_path: Path) -> None:
    prints = tmp_path / "alone"
    options = ["--name", "test", "--budget-s", "3", "--samples", "3"]
    arguments = ["-m", "trace_hooks.selftest.__main__", *options]
    succeeded([fork(prints, arguments, environment(tmp_path))])
    with open_run(tmp_path / "runs/test") as run:
        assert {row["test"] for row in run.ask("selftests").to_pylist()} == {"matmul", "memory"}


@pytest.mark.long
def test_it_refuses_while_a_job_trains_on_the_host(tmp_path: Path) -> None:
    live = RankInfo(
        schema="1.0", attempt=0, rank=7, world_size=8, host=host_name(), pid=os.getpid(),
        local_rank=7, device="cpu", device_uuid="", started_ns=time.time_ns(), layout=None,
        coords=None, end=None, hooks={},
    )  # fmt: skip
    folder = tmp_path / "runs/job/ranks"
    folder.mkdir(parents=True)
    publish_json(live, folder / "0000-00007.json")
    ends = ended(start(tmp_path, 2))
    assert {one.code for one in ends} == {2}
    assert "refused: rank 7 of the run job is running" in ends[0].err
    assert ends[1].err == ""
    assert not (tmp_path / "runs/test").exists()
