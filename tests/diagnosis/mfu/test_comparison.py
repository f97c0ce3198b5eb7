"""Which parts grew between two windows of steps, in points of MFU or percent of a step."""

from __future__ import annotations

import numpy as np
import pytest

from diagnosis.mfu.bootstrap import block_length, drawn_means
from diagnosis.mfu.comparison import LONG_STEPS, compare
from diagnosis.mfu.text import sentence
from tests.diagnosis.mfu.step_times_made import times_of

KNOWN = {"tflop": 0.08, "peak": 1.0}  # 40 ms on two devices


def noisy(num_steps: int, mean: float, spread: float, seed: int = 1) -> np.ndarray:
    return mean + spread * np.random.default_rng(seed).standard_normal(num_steps)


def test_points_of_the_parts_add_up_to_the_fall_of_mfu():
    before = times_of(compute=80.0, waiting=20.0, **KNOWN)
    after = times_of(compute=80.0, waiting=35.0, moving_dp=10.0, **KNOWN)
    found = compare(before, after)
    assert (found.mfu_before, found.mfu_after) == pytest.approx((0.4, 0.32))
    assert found.lost.points == pytest.approx(8)
    points = {change.name: change.points for change in found.changes}
    assert points == pytest.approx({"waiting": 4.8, "moving_dp": 3.2, "compute": 0})
    assert [change.name for change in found.changes][:2] == ["waiting", "moving_dp"]


def test_without_mfu_parts_are_percent_of_the_step_before():
    found = compare(times_of(compute=80.0, data=20.0), times_of(compute=80.0, data=30.0))
    assert (found.mfu_before, found.in_points) == (None, False)
    assert found.lost.points == pytest.approx(10)
    assert found.of("data").points == pytest.approx(10)


def test_twice_the_work_in_twice_the_time_is_no_change():
    before = times_of(compute=80.0, data=20.0, **KNOWN)
    after = times_of(compute=160.0, data=40.0, tflop=0.16, peak=1.0)
    assert compare(before, after).lost.points == pytest.approx(0)
    assert not any(change.grew for change in compare(before, after).changes)


def test_a_part_within_its_noise_did_not_grow():
    before = times_of(100, compute=noisy(100, 80, 2, 1), data=20.0)
    after = times_of(100, compute=noisy(100, 80, 2, 2), data=21.0)
    found = compare(before, after)
    assert found.of("data").grew
    assert not found.of("compute").grew
    assert found.of("compute").low < 0 < found.of("compute").high


def test_a_few_very_long_steps_hide_no_small_change():
    def with_long_steps(seed: int) -> np.ndarray:
        compute_ms = noisy(100, 100, 1, seed)
        compute_ms[seed * 10] = 900.0
        return compute_ms

    before = times_of(100, compute=with_long_steps(1))
    after = times_of(100, compute=with_long_steps(2), gc=3.0)
    found = compare(before, after)
    assert found.of("gc").grew
    assert found.of(LONG_STEPS).low < 0 < found.of(LONG_STEPS).high
    assert found.of("gc").points == pytest.approx(3, rel=0.01)  # of usual steps, 100 ms


def test_more_long_steps_are_a_part_and_say_what_they_are_longer_by():
    after_ms = noisy(100, 0, 0)
    after_ms[::10] = 50.0
    before = times_of(100, compute=noisy(100, 100, 1, 1))
    after = times_of(100, compute=noisy(100, 100, 1, 2), checkpoint=after_ms)
    found = compare(before, after)
    assert found.changes[0].name == LONG_STEPS
    assert found.changes[0].grew
    assert found.changes[0].points == pytest.approx(5, rel=0.1)
    assert (found.num_long_after, found.long_by) == (10, "checkpoint")
    assert abs(found.lost.points) < 0.5


def test_where_waiting_hides_in_other_parts_the_sentence_says_so():
    before, after = times_of(compute=80.0), times_of(compute=90.0)
    said = sentence(compare(before, after), "since step 9")
    assert said == (
        "Steps take 12.5 % (12.5 to 12.5) longer since step 9: compute +12.5; what ranks wait for "
        "each other may be inside these parts."
    )
    aligned = times_of(compute=80.0, waiting=1.0), times_of(compute=90.0, waiting=1.0)
    assert "may be inside" not in sentence(compare(*aligned), "since step 9")


def test_a_window_of_few_steps_is_refused():
    with pytest.raises(ValueError, match="a window has 3 finished steps; choose at least 4"):
        compare(times_of(3, compute=1.0), times_of(compute=1.0))
    with pytest.raises(ValueError, match="a window has 1 finished step; choose at least 4"):
        compare(times_of(1, compute=1.0), times_of(compute=1.0))


def test_intervals_of_steps_that_depend_on_each_other_are_wider():
    random = np.random.default_rng(3)
    white_S = random.standard_normal(400)
    lasting_S = np.repeat(white_S[:20], 20)
    assert block_length(white_S) <= 3
    assert block_length(lasting_S) >= 10
    spread = {length: drawn_means(lasting_S[None], length, random).std() for length in (1, 20)}
    assert spread[20] > 3 * spread[1]


def test_a_constant_series_needs_no_blocks():
    assert block_length(np.ones(50)) == 1
