"""Whether members of a group give its collectives the same numbers."""

from __future__ import annotations

import numpy as np
import pytest

from diagnosis.clocks.sequence_matching import PLAINLY, fits_better_elsewhere, sharpness


def ends(shift_of_last: int = 0, spread_ns: float = 5e6, num: int = 120) -> np.ndarray:
    """Ends of `num` collectives on four members whose clocks differ; the last one counts on."""
    random = np.random.default_rng(1)
    common = np.cumsum(20e6 + random.normal(0, spread_ns, num + 40))
    columns = [common[:num] + offset for offset in (0.0, 1e9, -4e8)]
    columns.append(common[shift_of_last : shift_of_last + num] + 7e7)
    return np.stack(columns, axis=1) + random.normal(0, 500.0, (num, 4))


def test_members_with_the_same_numbers_fit_as_they_are() -> None:
    assert (sharpness(ends()) > PLAINLY).all()
    assert fits_better_elsewhere(ends()) is None


@pytest.mark.parametrize("shift", [1, 7])
def test_the_member_that_counts_on_is_found(shift: int) -> None:
    assert fits_better_elsewhere(ends(shift)) == 3


def test_a_job_as_regular_as_a_clock_and_a_short_one_show_nothing() -> None:
    assert (sharpness(ends(spread_ns=0.0)) < PLAINLY).all()
    assert sharpness(ends(num=8)).tolist() == [0, 0, 0, 0]
    assert sharpness(ends()[:, :2]).tolist() == [0, 0]  # of two nobody is right
