"""The board of a folder: what is stored is there at once, the rest is made in the background."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from app.analysis.fleet import board
from app.analysis.fleet.board import FleetBoard, fleet_board_of
from app.analysis.fleet.collected import Collected
from app.analysis.fleet.stored import stored_summary
from app.runs.hub import Hub
from tests.runs_builder import two_rank_run
from tests.waiting import wait_until


@contextmanager
def board_of_runs(runs: Path) -> Iterator[FleetBoard]:
    with closing(Hub(runs)) as hub:
        made = fleet_board_of(hub)
        yield made
        made.close()


def test_summaries_are_made_and_stored(tmp_path: Path) -> None:
    folders = [two_rank_run(tmp_path / name).folder for name in "ab"]
    with board_of_runs(tmp_path) as made:
        wait_until(lambda: set(made.standing().summaries) == {"a", "b"})
        wait_until(lambda: made.standing().num_missing == 0)
        assert made.standing().current is None
    assert all(stored_summary(folder) for folder in folders)


def test_what_is_stored_is_there_at_once(tmp_path: Path) -> None:
    two_rank_run(tmp_path / "a")
    with board_of_runs(tmp_path) as made:
        wait_until(lambda: made.standing().summaries)
    with board_of_runs(tmp_path) as made:
        wait_until(lambda: set(made.standing().summaries) == {"a"})


def test_a_run_that_cannot_be_read_keeps_no_other_from_being_summarised(tmp_path: Path) -> None:
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad" / "run.json").write_text("{")
    two_rank_run(tmp_path / "good")
    with board_of_runs(tmp_path) as made:
        wait_until(lambda: set(made.standing().summaries) == {"good"})
        wait_until(lambda: set(made.standing().problems) == {"bad"})


def test_a_run_that_goes_takes_its_summary_along(tmp_path: Path) -> None:
    run = two_rank_run(tmp_path / "a")
    two_rank_run(tmp_path / "b")
    with board_of_runs(tmp_path) as made:
        wait_until(lambda: set(made.standing().summaries) == {"a", "b"})
        run.folder.rename(tmp_path / ".gone")
        wait_until(lambda: set(made.standing().summaries) == {"b"})


def test_before_the_first_look_nothing_is_said_of_the_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    may_look = threading.Event()
    plain = board.collected

    def late(folders: Iterable[Path]) -> Collected:
        may_look.wait(30)
        return plain(folders)

    monkeypatch.setattr(board, "collected", late)
    two_rank_run(tmp_path / "a")
    with board_of_runs(tmp_path) as own:
        assert not own.standing().has_looked
        may_look.set()
        wait_until(lambda: own.standing().has_looked)


def test_a_closed_board_makes_nothing(tmp_path: Path) -> None:
    two_rank_run(tmp_path / "a")
    with closing(Hub(tmp_path)) as hub:
        made = FleetBoard(hub)
        made.close()
        assert made.standing().summaries == {}
