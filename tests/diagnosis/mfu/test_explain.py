"""What the parts that grew lead to, on runs whose changes are known."""

from __future__ import annotations

import pytest

from app.views.efficiency.mfu import Asked, change_between, decline_of, efficiency_of
from diagnosis.mfu.skew import GC, UNKNOWN
from ingest.run import open_run
from tests.mfu_runs import PEAK_TFLOPS, changed_run

BEFORE, AFTER = (0, 9), (10, 19)


def change_of(folder, **changes):
    with open_run(changed_run(folder, 20, 10, **changes)) as run:
        return change_between(Asked(run, 0, PEAK_TFLOPS), BEFORE, AFTER)


def test_collections_behind_the_waiting_are_named(tmp_path):
    change = change_of(tmp_path / "run", gc_ms=10)
    assert change.causes[0].part == "waiting"
    assert (change.causes[0].kind, change.causes[0].ranks) == (GC, (1,))
    assert "waiting for other ranks +1.8 (launch skew by garbage collections" in change.sentence
    assert "they stop rank 1, for 14 ms per step" in change.sentence
    assert change.sentence.startswith("MFU fell 3.6 points")


def test_skew_without_recorded_collections_has_no_such_cause(tmp_path):
    change = change_of(tmp_path / "run", gc_ms=10, has_gc=False)
    (waiting,) = [cause for cause in change.causes if cause.part == "waiting"]
    assert waiting.kind == UNKNOWN
    assert waiting.text == (
        "skew of unknown cause: ranks are too few to compare, and no garbage collection was "
        "recorded"
    )


def test_the_operation_that_moves_data_for_longer_is_named(tmp_path):
    change = change_of(tmp_path / "run", gc_ms=0, move_ms=5)
    (cause,) = change.causes
    assert (cause.part, cause.text) == (
        "moving_dp",
        "above all reduce_scatter, 11 ms per step after 6.0 ms",
    )
    assert change.comparison.of("moving_dp").points == pytest.approx(100 * 40 * 5 / (100 * 105))


def test_a_decline_is_found_and_explained_without_windows(tmp_path):
    with open_run(changed_run(tmp_path / "run", 200, 120, gc_ms=6)) as run:
        change = decline_of(Asked(run, 0, PEAK_TFLOPS))
    assert " since step 120, from 40.0 % to " in change.sentence
    assert "launch skew by garbage collections" in change.sentence


def test_a_steady_run_has_no_decline(tmp_path):
    with open_run(changed_run(tmp_path / "run", 100, 100)) as run:
        change = decline_of(Asked(run, 0, PEAK_TFLOPS))
    assert change.comparison is None
    assert change.sentence.startswith("No decline is seen in steps 0 to 99.")


def test_a_part_names_its_longest_operations(tmp_path):
    with open_run(changed_run(tmp_path / "run", 8, 8)) as run:
        found = efficiency_of(Asked(run, 0, PEAK_TFLOPS), (0, 7))
    assert found.operations["moving_dp"] == (("reduce_scatter", pytest.approx(6)),)
    assert [name for name, _ in found.operations["compute"]] == ["backward", "forward"]
    assert [ms for _, ms in found.operations["compute"]] == pytest.approx([40, 30])
