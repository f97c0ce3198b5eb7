"""What the integration of torchtitan records of its Trainer, on two CPU processes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.folders import REPO
from tests.trace_hooks.processes import environment, rank_files, rows

pytest.importorskip("torchtitan")
pytestmark = pytest.mark.torch

JOB = REPO / "benchmarks" / "frameworks" / "jobs" / "torchtitan_debug.py"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of runs of three steps of the debug model under FSDP."""
    folder = tmp_path_factory.mktemp("torchtitan")
    torchrun = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    environ = environment(
        folder, TRACE_HOOKS_SOURCES="", FRAMEWORKS_LINES="1", FRAMEWORKS_STEPS="3"
    )
    done = subprocess.run(
        [sys.executable, *torchrun, str(JOB), "fsdp"],
        env=environ,
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return folder


def test_steps_have_torchtitans_numbers_and_what_it_logs(run: Path) -> None:
    steps = rows(run, "steps")
    assert sorted((s["rank"], s["step"]) for s in steps) == [
        (rank, step) for rank in range(2) for step in (1, 2, 3)
    ]
    assert {step["tokens"] for step in steps} == {1024}
    for name in ("loss", "lr", "grad_norm"):
        assert all(step[name] > 0 for step in steps)


def test_spans_of_the_structured_logger_are_spans(run: Path) -> None:
    spans = {(s["step"], s["name"]): s["kind"] for s in rows(run, "spans")}
    assert spans[2, "fetching_batch"] == "data_fetch"
    assert spans[2, "optim"] == "optimizer"
    assert (2, "fwd_bwd") not in spans


def test_no_hook_fails(run: Path) -> None:
    assert all(not info["hooks"]["errors"] for info in rank_files(run))
