"""A GPT over ranks computes what one process computes; schedules run the stages of their rank."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.testing._internal.distributed.fake_pg import FakeStore

from sample_traces.jobs.model import build_stage, token_loss
from sample_traces.jobs.parallel import build_schedule
from sample_traces.jobs.schedules import NAMES, num_stages, stage_indices
from tests.forks import fork, succeeded
from tests.sample_traces.jobs.spread_job import DP, FACTOR, SIZES, WAYS, batch

pytestmark = pytest.mark.torch


def alone() -> tuple[float, float]:
    """Gradient norm and loss of the whole model on the batches of all replicas."""
    stage = build_stage(SIZES, 0, 1, seed=1)
    tokens = torch.cat([batch(dp) for dp in range(DP)])
    loss = token_loss(stage(tokens[:, :-1]), tokens[:, 1:])
    loss.backward()
    gradients = [parameter.grad for parameter in stage.parameters()]
    norms = [gradient.norm() for gradient in gradients if gradient is not None]
    return torch.stack(norms).norm().item(), loss.item()


@pytest.mark.long
def test_every_way_of_spreading_has_the_loss_and_the_gradients_of_one_process(
    tmp_path: Path,
) -> None:
    command = ["-m", "tests.sample_traces.jobs.spread_job", str(tmp_path / "found")]
    succeeded([fork(tmp_path / "job", command, os.environ | {"OMP_NUM_THREADS": "1"})])
    norm, loss = alone()
    found = json.loads((tmp_path / "found").read_text())
    assert found == [pytest.approx([norm, loss, norm * FACTOR], rel=1e-4)] * (len(WAYS) + 1)


@pytest.fixture(params=[0, 1])
def mesh(request: pytest.FixtureRequest) -> Iterator[Any]:
    """Of two pipeline ranks, one of which this process is; nothing is sent."""
    dist.init_process_group("fake", store=FakeStore(), rank=request.param, world_size=2)
    yield init_device_mesh("cpu", (2, 1, 1), mesh_dim_names=("pp", "dp", "tp"))
    dist.destroy_process_group()


KINDS = {
    "1f1b": "Schedule1F1B",
    "gpipe": "ScheduleGPipe",
    "interleaved": "ScheduleInterleaved1F1B",
    "zero-bubble": "ScheduleInterleavedZeroBubble",
    "zbv": "ScheduleZBVZeroBubble",
}


@pytest.mark.parametrize("name", NAMES)
def test_a_schedule_has_the_stages_of_its_rank(mesh: Any, name: str) -> None:
    indices = stage_indices(name, mesh.get_local_rank("pp"), 2)
    modules = [build_stage(SIZES, 0, 1, seed=1) for _ in indices]
    schedule = build_schedule(name, modules, mesh, torch.device("cpu"), 4, token_loss)
    assert (type(schedule).__name__, schedule._n_microbatches) == (KINDS[name], 4)
    stages = [schedule._stage] if len(indices) == 1 else schedule._stages
    assert [stage.stage_index for stage in stages] == list(indices)
    assert [stage.submod for stage in stages] == modules
    assert {stage.num_stages for stage in stages} == {num_stages(name, 2)}
