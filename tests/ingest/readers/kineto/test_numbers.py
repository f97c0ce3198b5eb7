"""From where the collectives of several files of a rank are numbered."""

from __future__ import annotations

from ingest.readers.kineto.events import Window
from ingest.readers.kineto.numbers import NUMBERS_APART, Stretches


def _windows(*steps: int) -> list[Window]:
    return [Window(step, 1000 * step, 900) for step in steps]


def test_files_of_ranks_with_steps_in_common_are_numbered_alike() -> None:
    stretches = Stretches()
    assert stretches.first_number(0, _windows(5, 6)) == 0
    assert stretches.first_number(0, _windows(10, 11)) == NUMBERS_APART
    assert stretches.first_number(1, _windows(11, 12)) == NUMBERS_APART
    assert stretches.first_number(2, _windows(12)) == NUMBERS_APART  # as the stretch has grown
    assert stretches.first_number(1, _windows(6)) == 0
    assert stretches.first_number(1, _windows(1)) == 2 * NUMBERS_APART


def test_no_two_files_of_a_rank_are_numbered_alike() -> None:
    stretches = Stretches()
    assert stretches.first_number(0, _windows(5, 6)) == 0
    assert stretches.first_number(1, _windows(6, 7, 8)) == 0
    assert stretches.first_number(0, _windows(7, 8)) == NUMBERS_APART


def test_a_file_without_steps_counts_from_0() -> None:
    stretches = Stretches()
    assert stretches.first_number(0, _windows(5)) == 0
    assert stretches.first_number(1, []) == 0
