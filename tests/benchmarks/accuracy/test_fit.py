"""The borders of lateness lie between the candidates that are right and those that are not."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.accuracy.fit import Candidate, fault_of, fitted, using
from benchmarks.accuracy.labelled_traces import Arm
from diagnosis.statistics import late_ranks

RIGHT = [Candidate("a", 0.9, 1.0, True), Candidate("b", 0.45, 0.9, True)]
WRONG = [
    Candidate("c", 0.25, 0.8, False),  # is last often, but not evenly late
    Candidate("c", 0.8, 0.3, False),
]


def test_the_middle_of_the_widest_gap() -> None:
    borders = fitted(RIGHT + WRONG)
    assert (borders.even, borders.last) == (0.3, pytest.approx(0.6))
    assert borders.gap == pytest.approx(0.6)


def test_no_right_candidate_is_lost_for_a_wider_gap() -> None:
    near = Candidate("d", 0.45, 0.55, False)
    assert fitted([*RIGHT, *WRONG, near]).even <= 0.45


def test_borders_are_put_back() -> None:
    before = late_ranks.LEAST_EVEN, late_ranks.LEAST_LAST
    with using(fitted(RIGHT + WRONG)):
        assert before != (late_ranks.LEAST_EVEN, late_ranks.LEAST_LAST)
    assert before == (late_ranks.LEAST_EVEN, late_ranks.LEAST_LAST)


@pytest.mark.parametrize(
    ("name", "fault"),
    [
        ("p1-hw-b-loud-baseline", "p1-hw-b"),
        ("p1-hw-b-masked-injected", "p1-hw-b"),
        ("p3-sw-a-loud-injected", "p3-sw-a"),
    ],
)
def test_baselines_belong_to_their_fault(name: str, fault: str) -> None:
    assert fault_of(Arm(name, Path())) == fault
