"""The plan: who measures with whom, in which order."""

from __future__ import annotations

from itertools import combinations

import pytest

from trace_hooks.selftest.plan import (
    KIB,
    MIB,
    Sizes,
    Unit,
    members_text,
    plan,
    ranks_of_hosts,
    tournament,
)

CPU = Sizes.of("cpu")


@pytest.mark.parametrize("number", [1, 2, 3, 4, 7, 8, 33, 64])
def test_each_two_meet_once(number: int) -> None:
    rounds = list(tournament(range(number)))
    assert sorted(pair for pairs in rounds for pair in pairs) == list(
        combinations(range(number), 2)
    )
    assert len(rounds) == (number - 1 if number % 2 == 0 else number)
    for pairs in rounds:
        assert len({player for pair in pairs for player in pair}) == 2 * len(pairs)


def test_one_host() -> None:
    units = plan(["a"] * 8, "cpu", CPU)
    tests = [(unit.test, unit.num_bytes) for unit in units]
    assert tests[:2] == [("matmul", 2 * 4 * 256**2), ("memory", 8 * MIB)]
    assert tests.count(("mesh", 64 * KIB)) == tests.count(("mesh", 8 * MIB)) == 7
    assert [test for test, _ in tests].count("pair") == 0
    assert [unit.groups for unit in units if unit.test == "halves"] == [
        ((0, 1, 2, 3), (4, 5, 6, 7)),
        ((0, 1), (2, 3), (4, 5), (6, 7)),
    ]
    assert [size for test, size in tests if test == "all_reduce"] == [64 * KIB, MIB, 8 * MIB]


def test_hosts_of_gpus() -> None:
    hosts = ["b", "b", "a", "a", "c", "c"]
    units = plan(hosts, "cuda", Sizes.of("cuda"))
    assert [unit.test for unit in units[:4]] == ["matmul", "memory", "h2d", "d2h"]
    mesh = [unit.groups for unit in units if unit.test == "mesh"]
    assert mesh == [((0, 1), (2, 3), (4, 5))] * 2
    pairs = sorted(
        group
        for unit in units
        if unit.test == "pair" and unit.num_bytes == 256 * MIB
        for group in unit.groups
    )
    assert pairs == [(0, 2), (0, 4), (1, 3), (1, 5), (2, 4), (3, 5)]


def test_groups_of_a_unit_are_disjoint() -> None:
    hosts = [f"h{rank // 4}" for rank in range(4 * 13)]
    for unit in plan(hosts, "cuda", Sizes.of("cuda")):
        ranks = [rank for group in unit.groups for rank in group]
        assert len(ranks) == len(set(ranks))
        assert unit.groups


def test_one_rank_measures_its_device_only() -> None:
    assert [unit.test for unit in plan(["a"], "cpu", CPU)] == ["matmul", "memory"]


def test_a_unit_travels_as_json() -> None:
    unit = Unit("mesh", 64, ((0, 1), (2, 3)))
    plain = {"test": "mesh", "num_bytes": 64, "groups": [[0, 1], [2, 3]]}
    assert Unit.from_json(plain) == unit
    assert (unit.group_of(3), unit.group_of(4)) == ((2, 3), None)


def test_words() -> None:
    assert [members_text(ranks) for ranks in ([0, 1, 2], [2, 5], [4, 0, 2], [3])] == [
        "0-2",
        "2,5",
        "0,2,4",
        "3",
    ]
    assert ranks_of_hosts(["b", "a", "b"]) == {"b": [0, 2], "a": [1]}
