"""How ranks are arranged over parallel axes."""

from __future__ import annotations

from typing import Any

import pytest

from trace_hooks.layout import ParallelLayout


def test_the_first_axis_is_the_slowest() -> None:
    layout = ParallelLayout.from_sizes(tp=2, pp=2, dp=2)
    assert str(layout) == "pp 2 x dp 2 x tp 2"
    assert [layout.coords(rank) for rank in (0, 1, 6)] == [
        {"pp": 0, "dp": 0, "tp": 0},
        {"pp": 0, "dp": 0, "tp": 1},
        {"pp": 1, "dp": 1, "tp": 0},
    ]
    assert layout.groups("tp") == [(0, 1), (2, 3), (4, 5), (6, 7)]
    assert layout.groups("dp") == [(0, 2), (1, 3), (4, 6), (5, 7)]


def test_megatrons_order_names_the_fastest_axis_first() -> None:
    layout = ParallelLayout.from_megatron_order(tp=2, pp=4, ep=2)
    assert str(layout) == "pp 4 x tp 2, ep 2"
    assert (layout.size("ep"), layout.size("cp"), layout.world_size) == (2, 1, 8)


def test_a_split_dp_is_one_axis_too() -> None:
    layout = ParallelLayout.from_sizes(dp_replicate=2, dp_shard=2, tp=2)
    assert layout.size("dp") == 4
    assert layout.coords(6)["dp"] == 3
    assert layout.groups("dp") == [(0, 2, 4, 6), (1, 3, 5, 7)]


def test_an_axis_is_found_by_its_ranks() -> None:
    layout = ParallelLayout.from_sizes(pp=2, tp=2)
    axes = [layout.axis_of(ranks) for ranks in ((1, 0), (1, 3), range(4), (0, 3), (2,))]
    assert axes == ["tp", "pp", "world", "unknown", "unknown"]


def test_axes_of_experts_divide_the_ranks_of_each_pipeline_stage() -> None:
    layout = ParallelLayout.from_sizes(pp=2, dp=4, ep=2)
    assert layout.groups("ep") == [(0, 1), (2, 3), (4, 5), (6, 7)]
    assert layout.groups("edp") == [(0, 2), (1, 3), (4, 6), (5, 7)]
    assert layout.coords(7) == {"pp": 1, "dp": 3, "ep": 1}
    groups = ((2, 3), (1, 3), (0, 1, 2, 3), (0, 4), range(8), (1, 2))
    assert [layout.axis_of(ranks) for ranks in groups] == [
        "ep",
        "dp",
        "dp",
        "pp",
        "world",
        "unknown",
    ]


def test_tensor_parallel_experts_are_next_to_each_other() -> None:
    layout = ParallelLayout.from_sizes(dp=2, tp=4, ep=2, etp=2)
    assert layout.groups("etp") == [(0, 1), (2, 3), (4, 5), (6, 7)]
    assert layout.groups("ep") == [(0, 2), (1, 3), (4, 6), (5, 7)]
    assert layout.coords(6) == {"dp": 1, "tp": 2, "ep": 1, "etp": 0}
    assert [layout.axis_of(ranks) for ranks in ((0, 1), (4, 6), (0, 4))] == ["etp", "ep", "dp"]


def test_a_stage_need_not_be_of_ranks_in_a_row() -> None:
    layout = ParallelLayout.from_sizes("dp-pp", dp=4, pp=2, ep=2)
    assert layout.groups("ep") == [(0, 2), (4, 6), (1, 3), (5, 7)]


@pytest.mark.parametrize("sizes", [{"dp": 4, "ep": 4}, {"dp": 2, "tp": 2, "etp": 2}])
def test_a_group_of_another_axis_too_is_called_by_that(sizes: dict[str, int]) -> None:
    layout = ParallelLayout.from_sizes(**sizes)
    assert "ep" not in {layout.axis_of(group) for group in layout.groups("ep")}
    assert layout.axis_of((0, 1, 2, 3) if sizes["dp"] == 4 else (0, 1)) in ("dp", "tp")


def test_experts_that_do_not_divide_a_stage_have_no_groups() -> None:
    layout = ParallelLayout.from_sizes(dp=4, ep=3)
    assert layout.groups("ep") == []
    assert layout.coords(3) == {"dp": 3}


def test_a_mesh_may_order_ranks_in_its_own_way() -> None:
    layout = ParallelLayout((("pp", 2), ("tp", 2)), mesh=(0, 2, 1, 3))
    assert layout.coords(2) == {"pp": 0, "tp": 1}
    assert ParallelLayout.from_json(layout.to_json()) == layout
    assert not layout.has(4)
    with pytest.raises(ValueError, match="rank 4 is not in the layout"):
        layout.coords(4)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"axes": (("tp", 0),)}, "axis tp has size 0"),
        ({"axes": (("tp", True),)}, "axis tp has size True"),
        ({"axes": (("xp", 2),)}, "unknown parallel axis 'xp'"),
        ({"axes": (("tp", 2), ("tp", 2))}, "named twice"),
        ({"axes": (("dp", 2), ("dp_shard", 2))}, "not both"),
        ({"axes": (("tp", 2),), "experts": (("tp", 2),)}, "unknown expert axis"),
        ({"axes": (("tp", 2),), "mesh": (0, 0)}, "name every rank once"),
        ({"axes": (("dp", 10**9), ("tp", 2))}, "has more than 1048576 ranks; check its sizes"),
    ],
)
def test_a_wrong_layout_is_refused(arguments: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        ParallelLayout(**arguments)
