"""The board of a folder: what is stored is there at once, the rest is made in the background."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from app.analysis.fleet.board import FleetBoard, fleet_board_of
from app.analysis.fleet.stored import stored_summary
from app.runs.hub import Hub
from tests.runs_builder import two_rank_run
from tests.waiting import wait_until


@contextmanager
def board_of_runs(runs: Path) -> Iterator[FleetBoard]:
    with closing(Hub(runs)) as hub:
        board = fleet_board_of(hub)
        yield board
        board.close()


def test_summaries_are_made_and_stored(tmp_path: Path) -> None:
    folders = [two_rank_run(tmp_path / name).folder for name in "ab"]
    with board_of_runs(tmp_path) as board:
        wait_until(lambda: set(board.standing().summaries) == {"a", "b"})
        wait_until(lambda: board.standing().num_missing == 0)
        assert board.standing().current is None
    assert all(stored_summary(folder) for folder in folders)


def test_what_is_stored_is_there_at_once(tmp_path: Path) -> None:
    two_rank_run(tmp_path / "a")
    with board_of_runs(tmp_path) as board:
        wait_until(lambda: board.standing().summaries)
    with board_of_runs(tmp_path) as board:
        wait_until(lambda: set(board.standing().summaries) == {"a"})


def test_a_run_that_cannot_be_read_keeps_no_other_from_being_summarised(tmp_path: Path) -> None:
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad" / "run.json").write_text("{")
    two_rank_run(tmp_path / "good")
    with board_of_runs(tmp_path) as board:
        wait_until(lambda: set(board.standing().summaries) == {"good"})
        wait_until(lambda: set(board.standing().problems) == {"bad"})


def test_a_run_that_goes_takes_its_summary_along(tmp_path: Path) -> None:
    run = two_rank_run(tmp_path / "a")
    two_rank_run(tmp_path / "b")
    with board_of_runs(tmp_path) as board:
        wait_until(lambda: set(board.standing().summaries) == {"a", "b"})
        run.folder.rename(tmp_path / ".gone")
        wait_until(lambda: set(board.standing().summaries) == {"b"})


def test_a_closed_board_makes_nothing(tmp_path: Path) -> None:
    two_rank_run(tmp_path / "a")
    with closing(Hub(tmp_path)) as hub:
        board = FleetBoard(hub)
        board.close()
        assert board.standing().summaries == {}
