"""Who is beyond the noise of the others."""

from __future__ import annotations

import numpy as np
import pytest

from diagnosis.whatif.suspects import beyond, named, shrunk


def test_beyond_is_judged_against_the_others() -> None:
    ratio, found = beyond(np.array([1.0, 1.01, 0.99, 2.0]), 0.05)
    assert found.tolist() == [3]
    assert ratio[3] == pytest.approx(2.0)
    assert beyond(np.array([1.0, 1.08]), 0.1)[1].tolist() == []
    assert beyond(np.array([1.0, 1.2]), 0.1)[1].tolist() == [1]
    assert beyond(np.array([0.0, 0.0, 3.0]), 0.05)[1].tolist() == []
    noisy = np.array([0.8, 1.2, 0.9, 1.1, 1.25])
    assert beyond(noisy, 0.05)[1].tolist() == []


def test_a_cell_shrinks_to_its_slowest_member_after_the_fix() -> None:
    own_NST = np.array([[[4.0, 6.0]], [[2.0, 2.0]]])  # two ops, one step, two members
    factor_NS = shrunk(own_NST, np.array([1.0, 2.0]))  # member 1 becomes twice as quick
    assert factor_NS.tolist() == [[4 / 6], [1.0]]


def test_ranks_are_named_in_words() -> None:
    assert (named([5]), named([4, 5])) == ("rank 5", "ranks 4, 5")
