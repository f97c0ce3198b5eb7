"""What injected faults do to a real job, and the marks they leave."""

from __future__ import annotations

import math
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from ingest.run import open_run
from sample_traces.jobs.faults import Fault
from sample_traces.jobs.host_faults import Burner
from sample_traces.jobs.inject import Injector, _hold_gil
from sample_traces.jobs.model import GPTSizes, build_stage, token_loss
from tests.forks import ended, fork
from tests.waiting import wait_until

pytestmark = pytest.mark.torch

TINY = ("--batch", "1", "--seq", "16", "--width", "32", "--heads", "2")


def slowdown(fault: str) -> float:
    """Thread CPU time of forward and backward passes, all of it / without the extra work."""
    sizes = GPTSizes(num_layers=2, width=128)
    stage = build_stage(sizes, 0, 1, seed=1)
    injector = Injector(
        [Fault.parse(fault)], 0, 1, 1, torch.device("cpu"), announce=lambda fault: None
    )
    injector.install(stage)
    injector.begin_step(0)
    tokens = torch.randint(0, sizes.vocabulary, (4, 128))
    begun_s = time.thread_time()
    for _ in range(5):
        token_loss(stage(tokens), tokens).backward()
    spent_s = time.thread_time() - begun_s
    return spent_s / (spent_s - injector.work.extra_s)


def test_a_slow_rank_spends_x_times_the_cpu_time() -> None:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        assert 2.4 < slowdown("slow-rank=0,x=3") < 3.1
        assert slowdown("slow-rank=0,x=3,from=1") == 1.0
        assert slowdown("slow-rank=1,x=3") == 1.0
    finally:
        torch.set_num_threads(threads)


def test_a_signal_does_not_end_a_held_gil() -> None:
    handler = signal.signal(signal.SIGALRM, lambda *_: None)
    signal.setitimer(signal.ITIMER_REAL, 0.1)
    begun_s = time.monotonic()
    try:
        _hold_gil(Fault.parse("hold-gil=0@0,s=0.5"))
    finally:
        signal.signal(signal.SIGALRM, handler)
    assert time.monotonic() - begun_s >= 0.5


@pytest.mark.long
def test_faults_act_in_their_step_and_leave_a_mark(
    train_3d: Callable[..., Any], tmp_path: Path
) -> None:
    planted = {
        "hang=0@1,s=1": (0, 1),
        "hold-gil=1@2,s=1": (1, 2),
        "late-rank=1,ms=100,from=3,to=3": (1, 3),
        "slow-loader=1,ms=500,from=4,to=4": (1, 4),
        "gc,objects=1000000,from=5,to=5": (0, 5),
        "nan=0@6": (0, 6),
    }
    options = [word for fault in planted for word in ("--fault", fault)]
    job = train_3d(
        tmp_path,
        "faults",
        pp=1,
        dp=1,
        tp=2,
        num_steps=7,
        num_microbatches=2,
        num_layers=1,
        options=(*TINY, *options),
    )
    run = open_run(job.folder)
    marks = [row for row in run.ask("marks").to_pylist() if row["kind"] == "fault"]
    assert sorted((m["rank"], m["step"]) for m in marks) == sorted(planted.values())
    step_ms = {row["step"]: row["step_ms"] for row in run.ask("steps").to_pylist()}
    assert step_ms[1] > 1_000
    assert step_ms[2] > 1_000
    assert step_ms[3] > 2 * 2 * 100  # two all-reduces a micro-batch
    assert step_ms[4] > 500
    waits_ms = {
        row["rank"]: row["data_wait_ms"]
        for row in run.ask("step_times", step_min=4, step_max=4).to_pylist()
    }
    assert waits_ms[1] > 500 > waits_ms[0]
    pauses = run.sql("SELECT rank FROM spans WHERE kind = 'gc' AND step = 5 AND dur_ns > 20e6")
    assert len(set(pauses.column("rank").to_pylist())) == 1
    norms = [row["grad_norm"] for row in job.losses]
    assert [math.isnan(norm) for norm in norms] == [False] * 6 + [True]


@pytest.mark.long
def test_faults_of_hosts_and_links_act_in_their_steps(
    train_3d: Callable[..., Any], tmp_path: Path
) -> None:
    faults = (
        "late-step=1,ms=400,from=3,to=3",
        "spikes=0,ms=400,every=1,from=5,to=5",
        "slow-save=1,ms=400,every=2,from=7,to=7",
        "slow-network,mb=64,from=9,to=9",
        "burner=1,share=1,from=11,to=12",
    )
    job = train_3d(
        tmp_path,
        "hosts",
        pp=1,
        dp=2,
        tp=1,
        num_steps=14,
        num_microbatches=2,
        num_layers=1,
        options=(*TINY, *(word for fault in faults for word in ("--fault", fault))),
    )
    run = open_run(job.folder)
    phases = {(row["rank"], row["step"]): row for row in run.ask("rank_phases").to_pylist()}
    late = phases[1, 3]
    assert late["step_ms"] - late["covered_ms"] > 350  # in no recorded phase
    assert phases[0, 5]["cpu_ms"] > 350 > phases[1, 5]["cpu_ms"]
    saved = {key for key, row in phases.items() if row["checkpoint_ms"]}
    assert saved == {(rank, step) for rank in (0, 1) for step in range(1, 14, 2)}
    assert phases[1, 7]["checkpoint_ms"] > 350 > phases[0, 7]["checkpoint_ms"]
    moved = {row["step"]: row for row in run.ask("transfers").to_pylist()}
    assert moved[9]["transfer_ms"] > 3 * moved[8]["transfer_ms"]
    assert moved[9]["num_bytes"] == moved[8]["num_bytes"]  # nobody is shown the others
    marked = sorted(
        (mark["step"], mark["rank"])
        for mark in run.ask("marks").to_pylist()
        if mark["kind"] == "fault"
    )
    assert marked == [(3, 1), (5, 0), (7, 1), (9, 0), (11, 1)]


def test_a_burner_binds_its_rank_and_ends() -> None:
    cores = os.sched_getaffinity(0)
    burner = Burner(rank=1)
    burner.start(1.5)
    try:
        assert os.sched_getaffinity(0) == {burner.core}
        started = [process.pid for process in burner.processes]
        assert len(started) == 2
    finally:
        burner.stop()
    assert os.sched_getaffinity(0) == cores
    assert not any(Path(f"/proc/{pid}").exists() for pid in started)


def marks_of(folder: Path) -> set[tuple[int, int, str]]:
    """Rank, step and kind of each mark."""
    with open_run(folder) as run:
        rows = run.ask("marks").to_pylist()
    return {(row["rank"], row["step"], row["kind"]) for row in rows}


@pytest.mark.long
def test_when_a_rank_is_killed_the_launcher_ends_the_others(tmp_path: Path) -> None:
    sizes = {"nproc": 2, "pp": 1, "dp": 1, "tp": 2, "steps": 50, "layers": 1, "runs": tmp_path}
    command = ["-m", "sample_traces.jobs.train_3d", *TINY, "--device", "cpu"]
    for option, value in sizes.items():
        command += [f"--{option}", str(value)]
    [done] = ended([fork(tmp_path / "job", [*command, "--fault", "kill=1@2"], os.environ)])
    assert done.code == 1
    assert "rank 1 ended with code -9" in done.err
    [folder] = [path.parent for path in tmp_path.glob("*/run.json")]
    wait_until(lambda: (1, 2, "fault") in marks_of(folder))  # its collector publishes the last rows
    with open_run(folder) as run:
        ends = {info["rank"]: info["end"] for info in run.ranks}
    assert ends[1] is None
    assert ends[0] is not None
    assert ends[0]["status"] in ("failed", "stopped")
