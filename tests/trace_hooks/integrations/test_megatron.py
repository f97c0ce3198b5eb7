"""What the integration of Megatron-core records of its schedules, on four CPU processes."""

from __future__ import annotations

import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import pytest

from tests.folders import REPO
from tests.trace_hooks.processes import environment, rank_files, rows

pytest.importorskip("megatron.core")
pytestmark = pytest.mark.torch

JOB = REPO / "benchmarks" / "frameworks" / "jobs" / "megatron_core.py"


@pytest.fixture(scope="module", params=[(), ("interleaved",)], ids=["1F1B", "interleaved"])
def run(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of runs of a job with tensor parallel 2 and pipeline parallel 2, of three steps."""
    folder = tmp_path_factory.mktemp("".join(request.param) or "1F1B")
    torchrun = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "4"]
    environ = environment(
        folder, TRACE_HOOKS_SOURCES="", FRAMEWORKS_LINES="1", FRAMEWORKS_STEPS="3"
    )
    done = subprocess.run(
        [sys.executable, *torchrun, str(JOB), *request.param],
        env=environ,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return folder


def test_each_pass_has_its_micro_batch_and_stage(run: Path) -> None:
    passes = defaultdict(list)
    for span in rows(run, "spans"):
        if span["name"] in ("F", "B"):
            passes[span["rank"], span["step"], span["name"]].append(
                (span["chunk"], span["microbatch"])
            )
    num_chunks = 2 if run.name.startswith("interleaved") else 1
    for rank in range(4):
        stages = [rank // 2 + 2 * chunk for chunk in range(num_chunks)]
        wanted = sorted((stage, number) for stage in stages for number in range(4))
        for step in range(3):
            assert sorted(passes[rank, step, "F"]) == wanted
            assert sorted(passes[rank, step, "B"]) == wanted


def test_steps_have_loss_learning_rate_gradient_norm_and_tokens(run: Path) -> None:
    steps = rows(run, "steps")
    assert sorted((s["rank"], s["step"]) for s in steps) == [
        (rank, step) for rank in range(4) for step in range(3)
    ]
    with_loss = {step["rank"] for step in steps if step["loss"] is not None}
    assert with_loss == {2, 3}  # the last stage
    assert {step["tokens"] for step in steps} == {1024}
    assert [step["lr"] for step in steps] == pytest.approx([1e-3] * 12)
    assert all(step["grad_norm"] > 0 for step in steps)


def test_no_hook_fails(run: Path) -> None:
    assert all(not info["hooks"]["errors"] for info in rank_files(run))
