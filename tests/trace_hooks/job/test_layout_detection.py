"""Layouts found in what is imported: device meshes and Megatron's parallel_state."""

from __future__ import annotations

import math
import sys
from types import ModuleType

import numpy as np
import pytest

from trace_hooks.job.layout_detection import axis_of_name, detect_layout
from trace_hooks.layout import ParallelLayout


class DeviceMesh:
    """What detection reads of torch's DeviceMesh (the real one: test_collectives_of_ranks.py)."""

    def __init__(self, ranks: np.ndarray, *names: str) -> None:
        self.mesh, self.mesh_dim_names = ranks, names or None


@pytest.fixture(autouse=True)
def only_stand_ins(monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType("torch.distributed.device_mesh")
    module.DeviceMesh = DeviceMesh  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "torch.distributed.device_mesh", module)
    monkeypatch.delitem(sys.modules, "torch.distributed", raising=False)
    monkeypatch.delitem(sys.modules, "megatron.core.parallel_state", raising=False)


def grid(*shape: int) -> np.ndarray:
    return np.arange(math.prod(shape)).reshape(shape)


def test_nothing_imported_is_an_unknown_layout() -> None:
    assert detect_layout() is None


def test_the_mesh_with_most_dimensions_wins() -> None:
    kept = [DeviceMesh(grid(8), "dp"), DeviceMesh(grid(2, 2, 2), "pp", "fsdp", "model")]
    assert detect_layout() == ParallelLayout((("pp", 2), ("dp", 2), ("tp", 2)))
    assert len(kept) == 2


def test_the_mesh_of_experts_adds_their_sizes() -> None:
    dense = DeviceMesh(grid(2, 4), "pp", "fsdp")
    sparse = DeviceMesh(grid(2, 2, 2), "pp", "efsdp", "ep")
    layout = detect_layout()
    assert layout == ParallelLayout((("pp", 2), ("dp", 4)), (("ep", 2),))
    assert dense.mesh.shape != sparse.mesh.shape


def test_experts_may_be_the_last_axis_of_the_mesh() -> None:
    mesh = DeviceMesh(grid(2, 2, 2), "pp", "dp", "ep")
    layout = detect_layout()
    assert layout == ParallelLayout((("pp", 2), ("dp", 4)), (("ep", 2),))
    assert layout.groups("ep")[1] == tuple(mesh.mesh[0, 1])


@pytest.mark.parametrize("order", [(0, 1), (1, 0)], ids=["dense first", "sparse first"])
@pytest.mark.parametrize(
    ("dense", "sparse", "found"),
    [
        (
            ((4, 2), "dp", "tp"),
            ((1, 2, 4), "pp", "edp", "ep"),
            ParallelLayout((("dp", 4), ("tp", 2)), (("ep", 4),)),
        ),
        (
            ((8,), "dp_shard"),
            ((2, 2, 2), "dp_replicate", "dp_shard", "ep"),
            ParallelLayout((("dp_shard", 8),), (("ep", 2),)),
        ),
        (
            ((8,), "dp"),
            ((2, 2, 2), "pp", "dp", "ep"),
            ParallelLayout((("pp", 2), ("dp", 4)), (("ep", 2),)),
        ),
    ],
)
def test_the_layout_is_that_of_the_dense_mesh_in_whichever_order_meshes_were_made(
    dense: tuple, sparse: tuple, found: ParallelLayout, order: tuple[int, int]
) -> None:
    described = (dense, sparse)
    kept = [DeviceMesh(grid(*described[n][0]), *described[n][1:]) for n in order]
    assert detect_layout() == found
    assert len(kept) == 2


@pytest.mark.parametrize(
    ("names", "axes"),
    [
        (("data_parallel", "tensor_parallel"), (("dp", 2), ("tp", 4))),
        (("dp", "sequence_parallel"), (("dp", 2), ("cp", 4))),
        (("dp", "sp"), (("dp", 2), ("cp", 4))),
        (("batch", "cp"), (("dp", 2), ("cp", 4))),
        (("dp_replicate", "fsdp"), (("dp_replicate", 2), ("dp_shard", 4))),
        (("ddp", "fsdp"), (("dp_replicate", 2), ("dp_shard", 4))),
        (("dp", "shard"), (("dp_replicate", 2), ("dp_shard", 4))),
    ],
)
def test_names_that_frameworks_give_dimensions(
    names: tuple[str, str], axes: tuple[tuple[str, int], ...]
) -> None:
    kept = DeviceMesh(grid(2, 4), *names)
    assert detect_layout() == ParallelLayout(axes)
    assert kept.mesh.shape == (2, 4)


def test_ranks_in_another_order_are_kept() -> None:
    kept = DeviceMesh(grid(2, 4).T, "dp", "tp")
    layout = detect_layout()
    assert layout is not None
    assert layout.mesh == (0, 4, 1, 5, 2, 6, 3, 7)
    assert layout.groups("tp")[0] == (0, 4)
    assert kept.mesh_dim_names == ("dp", "tp")


def test_looking_for_meshes_keeps_nothing_else_alive(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tensors that training frees meanwhile must be free: they are most of the memory."""

    def all_objects(*_: object) -> list[object]:
        raise AssertionError("a list of all objects keeps them alive")

    monkeypatch.setattr("gc.get_objects", all_objects)
    kept = DeviceMesh(grid(2, 2), "dp", "tp")
    assert detect_layout() == ParallelLayout((("dp", 2), ("tp", 2)))
    assert kept.mesh.shape == (2, 2)


@pytest.mark.parametrize("names", [(), ("rows", "columns"), ("dp", "ddp"), ("ep", "tp")])
def test_names_that_say_nothing_stay_unknown(names: tuple[str, ...]) -> None:
    kept = DeviceMesh(grid(2, 2), *names)
    assert detect_layout() is None
    assert kept.mesh.shape == (2, 2)


@pytest.mark.parametrize(
    ("name", "axis"),
    [
        ("mesh_tp", "tp"),
        ("mesh_dp_shard_cp", "dp"),
        ("TENSOR_MODEL_PARALLEL_GROUP", "tp"),
        ("default_pg", None),
        ("undefined", None),
    ],
)
def test_names_of_groups(name: str, axis: str | None) -> None:
    assert axis_of_name(name) == axis


def megatron(**ranks: list[int]) -> ModuleType:
    """parallel_state with the getters and rank lists of megatron-core 0.16."""
    state = ModuleType("megatron.core.parallel_state")
    size = {axis: len(ranks.get(axis, [0])) for axis in ("tp", "cp", "dp", "pp")}
    state.model_parallel_is_initialized = lambda: True  # type: ignore[attr-defined]
    state.get_tensor_model_parallel_world_size = lambda: size["tp"]  # type: ignore[attr-defined]
    state.get_context_parallel_world_size = lambda: size["cp"]  # type: ignore[attr-defined]
    state.get_data_parallel_world_size = lambda: size["dp"]  # type: ignore[attr-defined]
    state.get_pipeline_model_parallel_world_size = lambda: size["pp"]  # type: ignore[attr-defined]
    state.get_expert_model_parallel_world_size = lambda: 2  # type: ignore[attr-defined]
    state._TENSOR_MODEL_PARALLEL_GLOBAL_RANKS = ranks.get("tp")  # type: ignore[attr-defined]
    state._CONTEXT_PARALLEL_GLOBAL_RANKS = ranks.get("cp")  # type: ignore[attr-defined]
    state._DATA_PARALLEL_GLOBAL_RANKS = ranks.get("dp")  # type: ignore[attr-defined]
    state._PIPELINE_GLOBAL_RANKS = ranks.get("pp")  # type: ignore[attr-defined]
    return state


@pytest.mark.parametrize(
    ("ranks", "axes"),
    [
        ({"tp": [0, 1], "dp": [0, 2], "pp": [0, 4]}, (("pp", 2), ("dp", 2), ("tp", 2))),
        ({"tp": [0, 1], "pp": [0, 2], "dp": [0, 4]}, (("dp", 2), ("pp", 2), ("tp", 2))),
        ({"dp": [0, 1, 2, 3]}, (("dp", 4),)),
    ],
)
def test_megatron_sizes_and_order(
    ranks: dict[str, list[int]],
    axes: tuple[tuple[str, int], ...],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "megatron.core.parallel_state", megatron(**ranks))
    assert detect_layout() == ParallelLayout(axes, (("ep", 2),))


def test_megatron_before_its_groups_exist(monkeypatch: pytest.MonkeyPatch) -> None:
    state = megatron(tp=[0, 1])
    state.model_parallel_is_initialized = lambda: False  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "megatron.core.parallel_state", state)
    assert detect_layout() is None


def test_megatron_before_its_groups_of_experts_exist(monkeypatch: pytest.MonkeyPatch) -> None:
    """It calls itself initialised then, and raises where it is asked for them."""
    state = megatron(tp=[0, 1])
    of_experts = state.get_expert_model_parallel_world_size

    def not_yet() -> int:
        raise AssertionError("expert model parallel group is not initialized")

    state.get_expert_model_parallel_world_size = not_yet  # type: ignore[attr-defined]
    state.get_expert_tensor_parallel_world_size = lambda: None  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "megatron.core.parallel_state", state)
    assert detect_layout() is None
    state.get_expert_model_parallel_world_size = of_experts  # type: ignore[attr-defined]
    assert detect_layout() is None
    state.get_expert_tensor_parallel_world_size = lambda: 1  # type: ignore[attr-defined]
    assert str(detect_layout()) == "tp 2, ep 2"
