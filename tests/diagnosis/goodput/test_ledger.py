"""The ledger of an interrupted run made by hand."""

from __future__ import annotations

import pyarrow as pa
import pytest

from diagnosis.goodput.checkpoint_interval import advice_of, effective_share
from diagnosis.goodput.ledger import ledger_of
from ingest.run import open_run
from tests.startup_runs import interrupted_run


@pytest.fixture(scope="module")
def ledger(tmp_path_factory):
    folder = tmp_path_factory.mktemp("ledger") / "run"
    interrupted_run(folder)
    with open_run(folder) as run:
        return ledger_of(run.ask("goodput"), is_running=False)


def test_how_attempts_ended(ledger):
    assert [one.ended for one in ledger.attempts] == ["failed", "killed", "finished"]
    assert [one.attempt for one in ledger.interrupted] == [0, 1]


def test_steps_that_were_kept_are_productive(ledger):
    # 30 steps of 4 s are kept, with a save of 0.5 s in each fifth
    assert ledger.totals["productive"] == pytest.approx(30 * 4 - 6 * 0.5)
    assert ledger.totals["rewound"] == pytest.approx(8 * 4)
    assert ledger.wall_s == pytest.approx(160 + 10 + 14 * 4 + 3)
    assert ledger.effective_share == pytest.approx(117 / 229)


def test_what_an_interruption_and_a_save_cost(ledger):
    assert ledger.restart_s == pytest.approx((3 + 7 + 10 + 3 + 31 + 10) / 2)
    assert ledger.save_s == pytest.approx(0.5)
    assert ledger.interval_s == pytest.approx(20.0)


def test_a_running_attempt_is_no_interruption(tmp_path):
    interrupted_run(tmp_path / "run")
    with open_run(tmp_path / "run") as run:
        rows = run.ask("goodput").slice(0, 2)
    assert [one.ended for one in ledger_of(rows, is_running=True).attempts] == ["failed", "running"]
    assert len(ledger_of(rows, is_running=True).interrupted) == 1
    assert len(ledger_of(rows, is_running=False).interrupted) == 2


def test_a_job_that_was_stopped_last_was_not_interrupted_then(tmp_path):
    interrupted_run(tmp_path / "run")
    with open_run(tmp_path / "run") as run:
        rows = run.ask("goodput").to_pylist()
    rows[1] |= {"num_finished": 0, "num_stopped": 2}
    stopped = ledger_of(pa.Table.from_pylist(rows[:2]), is_running=False)
    assert [one.ended for one in stopped.attempts] == ["failed", "stopped"]
    assert [one.attempt for one in stopped.interrupted] == [0]
    assert len(ledger_of(pa.Table.from_pylist(rows), is_running=False).interrupted) == 2


def test_how_the_attempts_of_an_imported_run_ended_is_not_recorded(tmp_path):
    interrupted_run(tmp_path / "run")
    with open_run(tmp_path / "run") as run:
        imported = ledger_of(run.ask("goodput"), is_running=False, has_ends=False)
    assert {one.ended for one in imported.attempts} == {"not recorded"}
    assert imported.interrupted == []


def test_few_interruptions_give_a_range_and_no_advice(ledger):
    advice = advice_of(ledger)
    assert advice.num_interruptions == 2
    assert advice.mtbf_s == pytest.approx((229 - 38) / 2)
    assert "only twice" in advice.why_not
    assert advice.best_low_s < advice.best_s < advice.best_high_s


def test_what_is_left_now_is_by_the_work_between_saves(ledger):
    advice = advice_of(ledger)
    assert advice.interval_s == pytest.approx(20.0 - 0.5)  # from save to save, without the save
    left = effective_share(19.5, 0.5, ledger.restart_s, (229 - 38) / 2)
    assert advice.now_share == pytest.approx(left)


def test_without_saves_nothing_is_advised(tmp_path):
    interrupted_run(tmp_path / "run", saves=False)
    with open_run(tmp_path / "run") as run:
        advice = advice_of(ledger_of(run.ask("goodput"), is_running=False))
    assert (advice.best_s, advice.save_s, advice.curve) == (None, None, ())
    assert "No save was recorded" in advice.why_not


def test_where_times_count_from_each_step_there_is_no_wall_time(tmp_path):
    interrupted_run(tmp_path / "run")
    with open_run(tmp_path / "run") as run:
        rows = run.ask("goodput")
    ledger = ledger_of(rows, is_running=False, has_wall_time=False)
    assert ledger.wall_s is None
    assert ledger.effective_share is None
    assert ledger.totals["productive"] == pytest.approx(30 * 4 - 6 * 0.5)
    assert ledger.totals["start_up"] == ledger.totals["stalled"] == ledger.totals["restart"] == 0
