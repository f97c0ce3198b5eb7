"""Who is compared with whom, medians of others, noise."""

from __future__ import annotations

import numpy as np
import pytest

from diagnosis.statistics.peers import (
    deviations_of_heads,
    level_before,
    medians_of_others,
    noises,
    peers_of,
    slowdowns,
    step_noises,
    work_of,
)
from tests.diagnosis.work_tables import tables
from trace_hooks.layout import ParallelLayout


@pytest.mark.parametrize(
    ("sizes", "whom"),
    [
        ({"dp": 4, "tp": 2}, "dp"),  # three others with the same tp
        ({"pp": 2, "dp": 2, "tp": 2}, "stage"),  # one other replica, three others in the stage
        ({"pp": 4, "tp": 2}, "own past"),
        ({"pp": 8}, "own past"),
        ({"tp": 4}, "stage"),
        ({"dp": 4}, "dp"),
    ],
)
def test_peers_are_replicas_else_the_stage_else_the_own_past(sizes: dict, whom: str) -> None:
    given = tables(ParallelLayout.from_sizes(**sizes), 2, lambda rank, step: 100.0)
    ranks = work_of(given).ranks
    assert set(peers_of(ranks).whom_R.tolist()) == {whom}


@pytest.mark.parametrize("count", [2, 3, 4, 5, 8])
def test_the_median_of_the_others_is_that_of_the_others(count: int) -> None:
    random = np.random.default_rng(count)
    values_NS = random.normal(100, 10, (count, 6))
    values_NS[0, 2] = np.nan
    values_NS[1:, 3] = np.nan
    trusted_N = np.arange(count) != count - 1
    found_NS = medians_of_others(values_NS, trusted_N)
    for row in range(count):
        for step in range(6):
            others = [
                values_NS[other, step]
                for other in range(count)
                if other != row and trusted_N[other] and np.isfinite(values_NS[other, step])
            ]
            expected = np.median(others) if others else np.nan
            np.testing.assert_allclose(found_NS[row, step], expected, err_msg=f"{row}, {step}")


def test_slowdown_and_noise_of_a_known_case() -> None:
    layout = ParallelLayout.from_sizes(dp=8)
    given = tables(
        layout, 30, lambda rank, step: 100 + (rank % 2) * 2 + (50 if rank == 3 else 0), noise=0.0
    )
    work = work_of(given)
    peers = peers_of(work.ranks)
    everyone = np.ones(8, np.bool_)
    slow_RS = slowdowns(work, peers, everyone)
    np.testing.assert_allclose(slow_RS[3], 152 / 100)  # others: 100 x 4, 102 x 3
    np.testing.assert_allclose(slow_RS[0], 100 / 102)  # others: 100 x 3, 102 x 3, 152
    without = noises(slow_RS, peers, np.arange(8) != 3)
    assert without[0] == pytest.approx(
        3
        * np.median(
            np.abs(
                np.r_[[100 / 102] * 4, [102 / 100] * 3]
                - np.median(np.r_[[100 / 102] * 4, [102 / 100] * 3])
            )
        )
    )
    np.testing.assert_allclose(step_noises(slow_RS, peers), 0.0, atol=1e-12)  # no step differs


def test_cpu_time_is_the_measure_only_where_the_job_ran_on_cpu_and_recorded_it() -> None:
    layout = ParallelLayout.from_sizes(dp=4)

    def measure(**given: object) -> str:
        made = tables(layout, 3, lambda rank, step: 100.0, **given)
        return work_of(made).measure

    assert measure(device="cpu", cpu_ms=lambda rank, step: 60.0) == "cpu"
    assert measure(device="cpu") == "wall"
    assert measure(device="cuda:0", cpu_ms=lambda rank, step: 60.0) == "wall"


@pytest.mark.parametrize(
    "changes",
    [((40, 1.0),), ((12, 1.0), (28, 1.5)), ((8, 1.0), (17, 1.5), (15, 1.0)), ((7, 1.0), (30, 0.5))],
    ids=["none", "lasting", "over again", "quicker"],
)
def test_the_level_before_the_first_lasting_change(changes: tuple[tuple[int, float], ...]) -> None:
    levels = np.concatenate([np.full(num, level) for num, level in changes])
    noisy = levels * np.exp(np.random.default_rng(3).normal(0, 0.02, levels.size))
    assert level_before(noisy) == pytest.approx(1.0, rel=0.03)


def test_deviations_of_heads_are_those_of_each_head_alone() -> None:
    values = np.random.default_rng(5).normal(0, 1, 200).round(1)  # many values occur twice
    heads = [values[: count + 1] for count in range(values.size)]
    alone = [np.abs(head - np.median(head)).sum() for head in heads]
    np.testing.assert_allclose(deviations_of_heads(values), alone, atol=1e-9)


@pytest.mark.parametrize(("slow", "x", "expected"), [(1, 1.5, [1]), (0, 0.6, []), (None, 1.5, [])])
def test_two_ranks_are_compared_with_what_they_did_before(
    slow: int | None, x: float, expected: list[int]
) -> None:
    given = tables(
        ParallelLayout.from_sizes(dp=2),
        30,
        lambda rank, step: 100.0 * (x if step >= 10 and slow in (rank, None) else 1.0),
    )
    work = work_of(given)
    slow_RS = slowdowns(work, peers_of(work.ranks), np.ones(2, np.bool_))
    assert np.flatnonzero(np.median(slow_RS[:, 10:], axis=1) > 1.1).tolist() == expected
