"""Forward passes that activation checkpointing ran again."""

from __future__ import annotations

from pathlib import Path

import pytest

from ingest.run import open_run
from tests.folders import NO_TRACES, TRACES
from tests.ingest.readers.kineto.profiler_files import GPU, Json, event, flow, write
from tests.reader_results import Imported


def again(ts: float, dur: float, style: str) -> Json:
    if style == "reentrant":
        return event("CheckpointFunctionBackward", ts, dur)
    return event("torch/utils/checkpoint.py(1500): recompute_fn", ts, dur, "python_function")


@pytest.mark.parametrize("style", ["reentrant", "with stacks"])
def test_forward_passes_run_again_are_marked(tmp_path: Path, runs: Path, style: str) -> None:
    node = "autograd::engine::evaluate_function: "
    events = [
        event("aten::mm", 0, 5),
        event(node + "CheckpointFunctionBackward", 100, 90),
        again(101, 80, style),
        event("aten::mm again", 105, 10),
        event(node + "MmBackward0", 120, 50),
        event("aten::mm of backward", 125, 10),
        event("k forward", 10, 2, "kernel"),
        event("k again", 110, 2, "kernel"),
        event("k backward", 130, 2, "kernel"),
        event("k late", 500, 2, "kernel"),
        flow("s", 1, 1),
        flow("f", 1, 10, **GPU),
        flow("s", 2, 106),
        flow("f", 2, 110, **GPU),
        flow("s", 3, 126),
        flow("f", 3, 130, **GPU),
        flow("s", 4, 114),
        flow("f", 4, 500, **GPU),
    ]
    run = Imported(write(tmp_path / "a.json", events), into=runs)
    marked = {name for name, is_marked in run.rows("spans", "name", "recompute") if is_marked}
    assert marked == {again(0, 0, style)["name"], "aten::mm again", "k again", "k late"}


@pytest.mark.skipif(not TRACES.is_dir(), reason=NO_TRACES)
def test_a_real_job_with_activation_checkpointing(tmp_path: Path) -> None:
    """591 kernels and copies were launched inside recompute_fn: counted without this reader."""
    path = TRACES / "kineto/tracelens/mi300__resnet_act_checkpoint.json.gz"
    with open_run(Imported(path, into=tmp_path / "runs").folder) as run:
        (row,) = run.sql(
            "SELECT count(*) AS n, sum(dur_ns) AS ns FROM spans"
            " WHERE recompute AND kind IN ('kernel', 'memcpy')"
        ).to_pylist()
    assert row == {"n": 591, "ns": 4_122_223}
