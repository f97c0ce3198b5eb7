"""The parts of a start-up, from the answers of runs made by hand."""

from __future__ import annotations

import pytest

from diagnosis.goodput.startup import NOT_RECORDED, QUESTIONS, WARM_UP, starts_of
from ingest.run import open_run
from tests.startup_runs import phases, started_run


def starts(folder, ranks, **options):
    started_run(folder, ranks, **options)
    with open_run(folder) as run:
        return starts_of({name: run.ask(name) for name in QUESTIONS})


def test_parts_add_up_to_the_start_up(tmp_path):
    (start,) = starts(tmp_path / "run", {0: phases("model", 3)}, first_s=2.0)
    assert start.seconds == 5 + 3 + 2
    assert sum(start.parts.values()) == pytest.approx(start.seconds)
    assert start.parts["model"] == 3
    assert start.parts[WARM_UP] == pytest.approx(1.5)
    assert start.recorded_share == 1


def test_what_is_in_no_row_is_said_to_be_missing(tmp_path):
    rows = [("imports", 1.0, "x"), ("model", 3.0, "x")]
    run = started_run(tmp_path / "run", {0: rows})
    run.step(0, -1, 0, 0)  # no step of training
    with open_run(tmp_path / "run") as opened:
        tables = {name: opened.ask(name) for name in QUESTIONS}
    tables["startup"] = tables["startup"].slice(0, 1)
    (start,) = starts_of(tables)
    assert start.parts[NOT_RECORDED] == pytest.approx(3.0)
    assert start.recorded_share == pytest.approx(1 - 3 / 5)


def test_a_rank_that_still_starts_is_in_its_last_stretch(tmp_path):
    (start,) = starts(tmp_path / "run", {0: phases("data", 4)}, num_steps=0)
    assert (start.is_over, start.now.phase, start.now.seconds) == (False, "data", 4.5)
    assert start.until_s == 9


def test_what_goes_on_inside_the_first_step_is_no_step(tmp_path):
    run = started_run(tmp_path / "run", {0: phases()}, first_s=3.0)
    run.add("startup", 0, -1, ts_ns=1_700_000_000_000_000_000 + 5_500_000_000, dur_ns=2 * 10**9,
            cpu_ns=-1, phase="compile", what="x", how="sampled")  # fmt: skip
    run.publish()
    with open_run(tmp_path / "run") as opened:
        (start,) = starts_of({name: opened.ask(name) for name in QUESTIONS})
    assert start.parts["compile"] == 2
    assert start.parts[WARM_UP] == pytest.approx(0.5)
    assert sum(start.parts.values()) == pytest.approx(8.0)
