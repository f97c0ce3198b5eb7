"""The list of runs follows the folder, counts findings and waits for no index."""

from __future__ import annotations

import gc
import shutil
import threading
import time

import pytest

import app.analysis.run_board
from app.analysis.diagnosis import diagnosis_of
from app.analysis.fleet.stored import new_summary
from app.analysis.run_board import RunBoard, board_of
from app.runs.hub import Hub
from ingest.run import Run
from ingest.stopping import Stop
from sample_traces import RECORDED
from tests.app.boards import hub_with_board, settled
from tests.runs_builder import RunBuilder, two_rank_run


@pytest.fixture
def judging_hub(tmp_path):
    """A hub whose board counts the findings of its runs, too, which takes most of its time."""
    with hub_with_board(tmp_path) as hub:
        yield hub


@pytest.fixture
def hub(judging_hub, quick_board):
    return judging_hub


def test_newest_activity_first(hub, tmp_path):
    first = two_rank_run(tmp_path / "first")
    time.sleep(0.02)
    two_rank_run(tmp_path / "second")
    settled(hub)
    assert [row.name for row in board_of(hub).rows()] == ["second", "first"]
    first.step(0, 9, 900, 1000)
    first.publish()
    until = time.monotonic() + 60
    while board_of(hub).rows()[0].name != "first":
        assert time.monotonic() < until
        time.sleep(0.05)
    assert board_of(hub).rows()[0].last_step == 9


def test_a_damaged_run_is_listed_with_its_sentence(hub, tmp_path):
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "run.json").write_text('{"run":')
    two_rank_run(tmp_path / "sound")
    rows = settled(hub)
    assert rows["broken"].state == "damaged"
    assert "cannot be read as JSON" in rows["broken"].problem
    assert rows["sound"].state == "running"


def test_a_run_without_data_yet(hub, tmp_path):
    RunBuilder(tmp_path / "new", 2)
    row = settled(hub)["new"]
    assert (row.state, row.attempts, row.last_step) == ("lost", 0, None)


def judged(hub, name):
    """The row once its run has been judged."""
    until = time.monotonic() + 60
    while True:
        row = next((row for row in board_of(hub).rows() if row.name == name), None)
        if row is not None and row.was_judged:
            return row
        assert time.monotonic() < until
        time.sleep(0.05)


def test_findings_are_counted(judging_hub, tmp_path):
    shutil.copytree(RECORDED / "slow_rank", tmp_path / "slow")
    shutil.copytree(RECORDED / "healthy", tmp_path / "healthy")
    slow = judged(judging_hub, "slow")
    assert (slow.num_findings, slow.is_urgent) == (1, True)
    assert "5" in slow.first_finding
    healthy = judged(judging_hub, "healthy")
    assert (healthy.num_findings, healthy.first_finding) == (0, "")


def test_findings_of_a_stored_summary_are_not_looked_for_again(tmp_path, monkeypatch):
    folder = shutil.copytree(RECORDED / "slow_rank", tmp_path / "slow")
    Run(folder).refresh()
    expected = app.analysis.run_board.judgement(folder, Stop())
    assert expected.num_present + expected.num_past > 0
    new_summary(folder)
    monkeypatch.setattr(app.analysis.run_board, "diagnose_run", None)
    assert app.analysis.run_board.judgement(folder, Stop()) == expected


def test_what_a_page_has_found_is_not_looked_for_again(judging_hub, tmp_path, monkeypatch):
    Run(shutil.copytree(RECORDED / "slow_rank", tmp_path / "slow")).refresh()
    found = diagnosis_of(judging_hub, "slow")
    monkeypatch.setattr(app.analysis.run_board, "diagnose_run", None)
    assert judged(judging_hub, "slow").first_finding == found.findings[0].title


def test_a_run_with_too_little_data_is_not_judged(judging_hub, tmp_path):
    two_rank_run(tmp_path / "a", num_steps=1)
    assert judged(judging_hub, "a").num_findings is None


def test_no_request_waits_for_an_index(hub, tmp_path, monkeypatch):
    for number in range(3):
        two_rank_run(tmp_path / f"run{number}")
    go_on = threading.Event()
    indexing = threading.Event()

    def slow(self):
        indexing.set()
        assert go_on.wait(20)
        return True

    monkeypatch.setattr(app.analysis.run_board.Run, "refresh", slow)
    rows = board_of(hub).rows()
    assert {row.state for row in rows} == {"indexing"}
    assert indexing.wait(60)
    go_on.set()


def test_two_hundred_runs_answer_from_their_cards(tmp_path, hub):
    for number in range(200):
        (tmp_path / f"run{number:03d}").mkdir()
        (tmp_path / f"run{number:03d}" / "run.json").write_text("{}")
    settled(hub)
    assert len(board_of(hub).rows()) == 200


def test_a_board_that_nobody_asks_ends_its_thread(hub, tmp_path, monkeypatch):
    monkeypatch.setattr(app.analysis.run_board, "_IDLE_S", -1.0)
    monkeypatch.setattr(app.analysis.run_board, "LOOK_EVERY_S", 0.01)
    board = RunBoard(hub)
    board.rows()
    until = time.monotonic() + 60
    while board._thread is not None:
        assert time.monotonic() < until
        time.sleep(0.01)
    two_rank_run(tmp_path / "a")
    assert [row.name for row in board.rows()] == ["a"]
    board.close()


def test_a_link_out_of_the_folder_is_neither_listed_nor_indexed(tmp_path, quick_board):
    outside = two_rank_run(tmp_path / "elsewhere" / "secret").folder
    two_rank_run(tmp_path / "runs" / "job")
    (tmp_path / "runs" / "link").symlink_to(outside)
    hub = Hub(tmp_path / "runs")
    try:
        assert set(settled(hub)) == {"job"}
    finally:
        board_of(hub).close()
        hub.close()
    assert not (outside / "index").exists()


def test_a_board_ends_with_its_hub(tmp_path):
    hub = Hub(tmp_path)
    board = board_of(hub)
    hub.close()
    del hub
    gc.collect()
    assert board._closed
