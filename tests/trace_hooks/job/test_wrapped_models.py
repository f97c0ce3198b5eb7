"""Layouts by the groups of DDP, FSDP and pipeline stages: torch's own objects, on a group that
sends nothing."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Iterator
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.pipelining import PipelineStage
from torch.nn.parallel import DistributedDataParallel
from torch.testing._internal.distributed.fake_pg import FakeStore

from trace_hooks.job.layout_detection import detect_layout
from trace_hooks.job.wrapped_models import layout_by_strides

RANK, WORLD = 5, 8


@pytest.fixture(autouse=True)
def world() -> Iterator[None]:
    dist.init_process_group("fake", store=FakeStore(), rank=RANK, world_size=WORLD)
    yield
    dist.destroy_process_group()
    gc.collect()  # models and meshes of one test are none of the next one's


def group_of(*ranks: int) -> Any:
    return dist.new_group(list(ranks))


def stage(index: int, num_stages: int, group: Any = None) -> PipelineStage:
    return PipelineStage(nn.Linear(2, 2), index, num_stages, "cpu", group=group)


def ddp(group: Any = None) -> DistributedDataParallel:
    return DistributedDataParallel(nn.Linear(2, 2), process_group=group)


def hybrid() -> Any:
    # names that say nothing of the axes
    mesh = init_device_mesh("cpu", (2, 4), mesh_dim_names=("rows", "columns"))
    return fully_shard(nn.Linear(2, 2), mesh=mesh)


@pytest.mark.sampled(every=3)
@pytest.mark.parametrize(
    ("make", "layout"),
    [
        (ddp, "dp 8"),
        (lambda: fully_shard(nn.Linear(2, 2)), "dp 8"),
        (lambda: fully_shard(nn.Sequential(fully_shard(nn.Linear(2, 2)))), "dp 8"),
        (hybrid, "dp_replicate 2 x dp_shard 4"),
        (lambda: stage(RANK, WORLD), "pp 8"),
        (lambda: [stage(RANK, 2 * WORLD), stage(RANK + WORLD, 2 * WORLD)], "pp 8"),
        (lambda: [stage(1, 2, group_of(1, 5)), ddp(group_of(4, 5, 6, 7))], "pp 2 x dp 4"),
        (lambda: [stage(1, 2, group_of(4, 5)), ddp(group_of(1, 3, 5, 7))], "dp 4 x pp 2"),
    ],
)
def test_objects_that_span_the_world_are_the_layout(
    make: Callable[[], object], layout: str
) -> None:
    kept = make()
    assert str(detect_layout()) == layout
    assert kept


@pytest.mark.sampled(every=3)
@pytest.mark.parametrize(
    "make",
    [
        lambda: ddp(group_of(4, 5, 6, 7)),  # what is along the other axis is not known
        lambda: [ddp(), group_of(5, 6)],  # such as that of a ring of sequence parts
        lambda: [ddp(group_of(4, 5, 6, 7)), ddp(group_of(1, 5))],  # dp is one of them
        lambda: [stage(1, 2, group_of(1, 5)), ddp(group_of(1, 3, 5, 7))],  # they overlap
        lambda: ddp(group_of(RANK)),
        lambda: nn.Linear(2, 2),
    ],
)
def test_what_is_not_known_for_sure_stays_unknown(make: Callable[[], object]) -> None:
    kept = make()
    assert detect_layout() is None
    assert kept


class DeepSpeedEngine:
    """DeepSpeed's, as far as it is read."""

    def __init__(self, data: Any, sequence: Any = None, grid: Any = None) -> None:
        self.data_parallel_group, self.seq_parallel_group = data, sequence
        self.dp_world_size = dist.get_world_size(data)
        self.sequence_parallel_size = 1 if sequence is None else dist.get_world_size(sequence)
        if grid is not None:
            self.grid = grid


def grid(pipe: Any) -> Any:
    get_slice = lambda: group_of(RANK)  # noqa: E731
    return SimpleNamespace(get_pipe_parallel_group=lambda: pipe, get_slice_parallel_group=get_slice)


@pytest.mark.sampled(every=2)
@pytest.mark.parametrize(
    ("make", "layout"),
    [
        (lambda: DeepSpeedEngine(None), "dp 8"),
        (lambda: DeepSpeedEngine(group_of(1, 5), group_of(4, 5, 6, 7)), "dp 2 x cp 4"),
        (lambda: DeepSpeedEngine(group_of(4, 5, 6, 7), grid=grid(group_of(1, 5))), "pp 2 x dp 4"),
        (lambda: DeepSpeedEngine(group_of(1, 3, 5, 7)), None),
    ],
)
def test_deepspeed_says_its_groups(
    make: Callable[[], object], layout: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = ModuleType("deepspeed.runtime.engine")
    module.DeepSpeedEngine = DeepSpeedEngine  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setattr(DeepSpeedEngine, "__module__", module.__name__)
    kept = make()
    found = detect_layout()
    assert (found and str(found)) == layout
    assert kept


def test_before_training_more_groups_may_come() -> None:
    kept = ddp()
    assert detect_layout(training=False) is None
    assert kept


def test_objects_of_a_destroyed_group_say_nothing() -> None:
    group = group_of(*range(WORLD))
    kept = ddp(group)
    dist.destroy_process_group(group)
    assert detect_layout() is None
    assert kept


def test_groups_whose_strides_leave_a_gap_are_no_layout() -> None:
    assert layout_by_strides({"dp": (0, 2, 5)}, 3) is None
    assert layout_by_strides({"dp": (1, 3), "tp": (1, 5)}, 4) is None
    assert str(layout_by_strides({"dp": (1, 3), "tp": (0, 1)}, 4)) == "dp 2 x tp 2"


class ParallelDims:
    """torchtitan's, as far as it is read; its meshes fold cp into the dimension that shards."""

    def __init__(self, **sizes: int) -> None:
        names = ("pp", "dp_replicate", "dp_shard", "cp", "tp", "ep", "etp")
        self.__dict__.update(dict.fromkeys(names, 1) | sizes)


@pytest.mark.sampled(every=3)
@pytest.mark.parametrize(
    ("sizes", "layout"),
    [
        ({"dp_shard": 8}, "dp_shard 8"),
        ({"dp_replicate": 2, "dp_shard": 2, "cp": 2}, "dp_replicate 2 x dp_shard 2 x cp 2"),
        ({"pp": 2, "dp_shard": 4, "ep": 2}, "pp 2 x dp_shard 4, ep 2"),
        (
            {"pp": 2, "dp_shard": 2, "tp": 2, "ep": 2, "etp": 2},
            "pp 2 x dp_shard 2 x tp 2, ep 2, etp 2",
        ),
        ({"dp_shard": 4}, None),  # of another world
    ],
)
def test_torchtitan_says_its_sizes(
    sizes: dict[str, int], layout: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = ModuleType("torchtitan.distributed.parallel_dims")
    module.ParallelDims = ParallelDims  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, module.__name__, module)
    kept = ParallelDims(**sizes)
    found = detect_layout()
    assert (found and str(found)) == layout
    assert kept


def test_names_of_a_mesh_come_first() -> None:
    """The last test: torch keeps meshes in caches, beyond their group."""
    mesh = init_device_mesh("cpu", (2, 4), mesh_dim_names=("dp", "cp"))
    kept = fully_shard(nn.Linear(2, 2), mesh=mesh._flatten("dp_cp"))
    assert str(detect_layout()) == "dp 2 x cp 4"
    assert kept
