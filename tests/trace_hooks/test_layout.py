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
    assert str(layout) == "pp 4 x tp 2"
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
    ],
)
def test_a_wrong_layout_is_refused(arguments: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        ParallelLayout(**arguments)
