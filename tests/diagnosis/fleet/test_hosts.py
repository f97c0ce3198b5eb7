"""Which hosts are named, on fleets made by hand."""

from __future__ import annotations

from itertools import combinations

import msgspec
import numpy as np
import pytest

from benchmarks.random_fleets import WORLDS, drawn_shape, fleet_run, random_fleet, with_bad_host
from diagnosis.fleet.hosts import BY_CHANCE, FEWEST_RUNS, OF_A_HOST, slow_hosts, slow_in, tail
from diagnosis.fleet.summary import Summary


def runs_of(*runs: tuple[list[int], list[int]], job: int = 0) -> dict[str, Summary]:
    """Runs from their hosts and the slow ones of these."""
    return {
        f"run{number:04d}": fleet_run(f"run{number:04d}", job, number, hosts, slow)
        for number, (hosts, slow) in enumerate(runs)
    }


def test_the_tail_is_that_of_counting_all_cases() -> None:
    """Six hosts, three slow: of the 20 ways, in 10 a host that took part three times has two or
    more of the slow places.
    """
    ways = [sum(place < 3 for place in slow) for slow in combinations(range(6), 3)]
    for least in range(4):
        counted = sum(number >= least for number in ways) / len(ways)
        assert tail([(6, 3, 3)], least) == pytest.approx(counted)


def test_blocks_are_independent() -> None:
    assert tail([(8, 1, 1), (8, 1, 1)], 2) == pytest.approx(1 / 64)
    assert tail([(8, 1, 1), (8, 1, 1)], 1) == pytest.approx(1 - (7 / 8) ** 2)
    assert tail([(8, 0, 1), (8, 8, 1)], 1) == 1.0
    assert tail([(8, 0, 1)], 1) == 0.0


def test_a_host_that_is_slow_in_5_of_40_runs_is_named_and_no_other() -> None:
    rng = np.random.default_rng(7)
    given = []
    for number in range(40):
        hosts = rng.choice(np.arange(1, 16), 4, replace=False).tolist()
        if number % 8 == 3:
            given.append(([0, *hosts[1:]], [0]))
        else:
            given.append((hosts, [hosts[0]] if number == 20 else []))
    found = slow_hosts(runs_of(*given))
    (named,) = found.named
    assert (named.host, named.num_slow, named.num_runs) == ("gpu0000", 5, 5)
    assert named.kinds == ("slow_worker",)
    assert [run for run, _ in named.runs] == [f"run{n:04d}" for n in (3, 11, 19, 27, 35)]
    assert named.p_value <= BY_CHANCE
    assert found.num_runs == 40


def test_with_two_hosts_of_which_one_is_always_slow_there_is_nothing_to_compare_with() -> None:
    """Each of the two is half of all there is: 1/2 to the power of 4 is no proof."""
    assert not slow_hosts(runs_of(*[([0, 1], [0])] * 4)).named


def test_a_host_in_few_runs_is_not_judged() -> None:
    given = [([0, 1, 2, 3], []) for _ in range(10)]
    few = [([9, 1, 2, 3], [9]) for _ in range(FEWEST_RUNS - 1)]
    found = slow_hosts(runs_of(*given, *few))
    assert not found.named
    assert found.num_too_few == 1
    enough = [([9, 1, 2, 3], [9]) for _ in range(FEWEST_RUNS + 3)]
    assert [one.host for one in slow_hosts(runs_of(*given, *enough)).named] == ["gpu0009"]


def test_a_run_whose_hosts_are_mostly_slow_blames_none() -> None:
    given = [([0, 1, 2], [0, 1]) for _ in range(8)] + [([3, 4, 5], []) for _ in range(8)]
    found = slow_hosts(runs_of(*given))
    assert not found.named
    assert found.num_runs == 8


def test_runs_of_another_job_are_not_compared() -> None:
    """All hosts of one job are slow now and then: against those of a calm job they would stand
    out.
    """
    noisy = {
        f"noisy{number:04d}": fleet_run(f"noisy{number:04d}", 1, number, [0, 1, 2, 3], [number % 4])
        for number in range(32)
    }
    calm = runs_of(*[([4, 5, 6, 7], []) for _ in range(32)])
    assert not slow_hosts({**noisy, **calm}).named
    as_one_job = {
        name: msgspec.structs.replace(run, model="same") for name, run in {**noisy, **calm}.items()
    }
    assert not slow_hosts(as_one_job).named  # each of the four is slow as often as the others


def test_copies_of_a_run_count_once() -> None:
    runs = runs_of(([0, 1, 2, 3], [0]), *[([0, 1, 2, 3], []) for _ in range(7)])
    copies = {f"copy{number}": runs["run0000"] for number in range(6)}
    found = slow_hosts({**runs, **copies})
    assert not found.named
    assert found.num_runs == 8


def test_a_host_that_always_has_the_same_place_is_not_told_from_its_place() -> None:
    given = [([0, *others], [0]) for others in combinations(range(1, 6), 3)]
    (named,) = slow_hosts(runs_of(*given)).named
    assert named.is_place_possible
    assert named.ranks == (0,)
    moved = [
        ([*o[: n % 4], 0, *o[n % 4 :]], [0]) for n, o in enumerate(combinations(range(1, 6), 3))
    ]
    elsewhere = [(list(hosts), []) for hosts in combinations(range(1, 9), 4)][:30]
    (named,) = slow_hosts(runs_of(*moved, *elsewhere)).named
    assert not named.is_place_possible
    assert named.ranks == ()


def test_a_host_in_a_place_that_is_slow_on_all_hosts_is_not_named_flatly() -> None:
    """Whichever host has the first place is slow in every third run; host 0 has it in every second
    run.
    """
    rng = np.random.default_rng(1)
    given = []
    for number in range(120):
        first = 0 if number % 2 else int(rng.integers(1, 6))
        hosts = [first, *rng.choice(np.arange(6, 14), 3, replace=False).tolist()]
        given.append((hosts, [first] if number % 3 == 0 else []))
    named = slow_hosts(runs_of(*given)).named
    assert "gpu0000" in {one.host for one in named}
    assert all(one.is_place_possible for one in named)


def test_kinds_that_code_explains_name_no_host() -> None:
    run = fleet_run("run0000", 0, 0, [0, 1], [0])
    assert set(slow_in(run)) == {"gpu0000"}
    pauses = msgspec.structs.replace(run.findings[0], kind="gc_pauses")
    assert not slow_in(msgspec.structs.replace(run, findings=(pauses,)))


def test_hosts_that_a_finding_names_and_the_run_does_not_have_do_not_count() -> None:
    run = fleet_run("run0000", 0, 0, [0, 1], [0])
    elsewhere = msgspec.structs.replace(run.findings[0], hosts=("other",))
    assert not slow_in(msgspec.structs.replace(run, findings=(elsewhere,)))


def test_kinds_are_known_kinds() -> None:
    from diagnosis.detectors import KINDS

    assert set(KINDS) >= OF_A_HOST


def test_nothing_of_no_runs() -> None:
    found = slow_hosts({})
    assert (found.named, found.num_judged, found.num_runs) == ((), 0, 0)


@pytest.mark.parametrize("world", WORLDS)
def test_fleets_without_a_bad_host_have_none_named(world: str) -> None:
    rng = np.random.default_rng(11)
    for _ in range(5):
        found = slow_hosts(random_fleet(rng, world, drawn_shape(rng)))
        assert all(one.is_place_possible for one in found.named)
        assert world == "place" or not found.named


def test_a_planted_host_is_found_among_noise() -> None:
    rng = np.random.default_rng(5)
    shape = drawn_shape(rng)
    runs = with_bad_host(rng, random_fleet(rng, "even", shape), 3, 6)
    assert [one.host for one in slow_hosts(runs).named] == ["gpu0003"]
