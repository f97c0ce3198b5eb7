"""Values of ranks from their differences inside groups."""

from __future__ import annotations

import numpy as np
import pytest

from diagnosis.clocks.offset_graph import (
    Ties,
    deviations_from,
    largest_part,
    least_squares,
    misfits,
)

TRUE_R = np.array([0.0, 5.0, -3.0, 40.0])


def ties(*groups: tuple[int, ...], noise: float = 1.0, num_ranks: int = 4) -> Ties:
    """Exact ties of groups of ranks, whose constants are 100, 101, ..."""
    members = [(number, rank) for number, ranks in enumerate(groups) for rank in ranks]
    group_T, rank_T = (np.array(column) for column in zip(*members, strict=True))
    value_T = 100.0 + group_T - TRUE_R[rank_T]
    return Ties(group_T, rank_T, value_T, np.full(len(members), noise), num_ranks)


def test_ranks_that_share_no_group_are_compared_over_others() -> None:
    chain = ties((0, 1), (1, 2), (2, 3))
    x_R = least_squares(chain)
    assert x_R - x_R[0] == pytest.approx(TRUE_R)
    assert misfits(chain, x_R) == pytest.approx(0, abs=1e-9)


def test_a_group_that_contradicts_the_others_leaves_misfits() -> None:
    loop = ties((0, 1), (1, 2), (0, 2))
    wrong_T = loop.value_T.copy()
    wrong_T[-1] += 30.0
    wrong = Ties(loop.group_T, loop.rank_T, wrong_T, loop.noise_T, 3)
    assert np.abs(misfits(wrong, least_squares(wrong))).max() > 1


def test_the_deviation_grows_along_the_path_and_is_infinite_without_one() -> None:
    deviation_R = deviations_from(ties((0, 1), (1, 2), noise=2.0), base=0)
    assert deviation_R[0] == 0
    assert deviation_R[1] == pytest.approx(np.sqrt(2) * 2)  # two ties
    assert deviation_R[2] == pytest.approx(np.sqrt(4) * 2)
    assert deviation_R[3] == np.inf


def test_the_largest_part_is_that_of_most_ranks_then_of_the_lowest() -> None:
    assert largest_part(ties((0, 1), (2, 3))).tolist() == [0, 1]
    assert largest_part(ties((1, 2), (2, 3))).tolist() == [1, 2, 3]
