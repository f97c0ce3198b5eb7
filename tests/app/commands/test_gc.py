"""Old steps and runs go when asked for, and what findings and pinned links point at stays."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from app.analysis import diagnosis
from app.cli import EXIT_USER_ERROR, main
from ingest.index import compaction
from ingest.index.deletion import delete_leftovers
from ingest.index.indexer import Indexer
from ingest.run import Run, open_run
from tests.runs_builder import US, RunBuilder

NUM_STEPS = 6
DAY_US = 86_400e6
_ENDED = {"ts_ns": 5, "status": "finished", "error": None}

Gc = Callable[..., dict[str, Any]]


@pytest.fixture(autouse=True)
def _no_grace(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compaction, "GRACE_S", 0.0)


@pytest.fixture
def gc(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Gc:
    """`rankscope gc` of the runs below tmp_path; its JSON, each run under its name."""

    def made(*options: str, code: int = 0) -> dict[str, Any]:
        capsys.readouterr()
        assert main(["gc", str(tmp_path), "--json", *options]) == code
        printed = json.loads(capsys.readouterr().out)
        return printed | {"runs": {run["run"]: run for run in printed["runs"]}}

    return made


def run_of_days(folder: Path, first_days: float, ended: bool = True) -> RunBuilder:
    """A run with a step a day, the first of them so many days ago."""
    run = RunBuilder(folder, 2)
    run.rank_files(end=_ENDED if ended else None)
    begin_us = (time.time_ns() - 1_700_000_000_000_000_000) / US - first_days * DAY_US
    for step in range(NUM_STEPS):
        for rank in range(2):
            at_us = begin_us + step * DAY_US
            run.step(rank, step, at_us, at_us + 100)
            run.span(rank, step, "forward", at_us, at_us + 60)
        run.publish()
    return run


def steps_of(folder: Path) -> list[int]:
    with open_run(folder) as run:
        text = "SELECT DISTINCT step FROM spans ORDER BY step"
        return run.execute(text, {}).column("step").to_pylist()


def ranges(run: dict[str, Any], key: str = "removed") -> list[tuple[int, int]]:
    return [(one["first_step"], one["last_step"]) for one in run[key]]


def files(folder: Path) -> set[str]:
    return {str(path) for path in folder.rglob("*") if "index" not in path.parts}


def test_without_delete_it_only_says_what_would_go(
    tmp_path: Path, gc: Gc, capsys: pytest.CaptureFixture[str]
) -> None:
    run_of_days(tmp_path / "old", 50.5)
    run_of_days(tmp_path / "partly", 32.5)
    run_of_days(tmp_path / "new", 6.5)
    before = files(tmp_path)
    runs = gc("--keep", "30d")["runs"]
    assert runs["old"]["whole"]
    assert ranges(runs["partly"]) == [(0, 2)]
    assert not runs["new"]["whole"] | bool(runs["new"]["removed"])
    assert main(["gc", str(tmp_path), "--keep", "30d", "--dry-run"]) == 0
    printed = capsys.readouterr().out
    assert "old would go: its newest row is from before" in printed
    assert "partly: steps 0 to 2 would go" in printed
    assert "new stays: " in printed
    assert "nothing is removed; --delete removes of 3 runs 1 whole and steps of 1" in printed
    assert files(tmp_path) == before


def test_what_is_too_old_goes_and_the_second_time_there_is_nothing(tmp_path: Path, gc: Gc) -> None:
    run_of_days(tmp_path / "old", 50.5)
    run_of_days(tmp_path / "live", 50.5, ended=False)
    partly = run_of_days(tmp_path / "partly", 32.5)
    first = gc("--keep", "30d", "--delete")["runs"]
    assert [run["pending"] for run in first.values()] == ["", "", ""]
    assert not (tmp_path / "old").exists()
    assert steps_of(tmp_path / "live") == [], "it is still written, so its folder stays"
    assert steps_of(partly.folder) == [3, 4, 5]
    again = gc("--keep", "30d", "--delete")["runs"]
    assert [run["removed"] for run in again.values()] == [[], []]


def test_of_too_many_bytes_the_oldest_of_all_runs_go(tmp_path: Path, gc: Gc) -> None:
    run_of_days(tmp_path / "older", 20.5)
    newer = run_of_days(tmp_path / "newer", 18.5)
    size = sum(path.stat().st_size for path in newer.folder.glob("segments/*"))
    runs = gc("--keep", f"{size / 1e6 + 0.001:.6f}MB")["runs"]
    assert ranges(runs["older"]) == [(0, 3)]
    assert ranges(runs["newer"]) == [(0, 1)]
    assert not gc("--keep", "1GB")["runs"]["older"]["removed"]


def test_pinned_links_keep_their_steps_until_they_are_unpinned(tmp_path: Path, gc: Gc) -> None:
    folder = run_of_days(tmp_path / "old", 50.5).folder
    link = "http://127.0.0.1:8050/run/old/timeline?steps=1..2&rank=1"
    assert main(["pin", str(folder), link, "--note", "for the postmortem"]) == 0
    old = gc("--keep", "30d", "--delete")["runs"]["old"]
    assert ranges(old) == [(0, 0), (3, 5)]
    assert ranges(old, "kept") == [(1, 2)]
    assert old["kept"][0]["why"] == ("pinned link timeline?rank=1&steps=1..2 (for the postmortem)")
    assert steps_of(folder) == [1, 2]
    assert main(["pin", str(folder), link, "--remove"]) == 0
    assert gc("--keep", "30d", "--delete")["runs"]["old"]["whole"]
    assert not folder.exists()


def test_findings_keep_the_steps_around_them(
    tmp_path: Path, gc: Gc, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(diagnosis, "MOST_CELLS", 1)  # diagnose examines the newest 40 steps
    fault = "slow_worker=2,x=1.6,from=40,to=48"
    folder = tmp_path / "slow"
    sizes = ["--ranks", "4", "--pp", "1", "--tp", "1", "--steps", "90", "--microbatches", "2"]
    assert main(["generate", str(folder), *sizes, "--fault", fault]) == 0
    os.utime(folder / "run.json", (0, 0))  # an import is as old as its run.json
    slow = gc("--keep", "30d", "--delete")["runs"]["slow"]
    assert ranges(slow) == [(0, 14), (74, 89)]
    assert "finding slow_worker-0-2-40" in slow["kept"][0]["why"]
    again = gc("--keep", "30d", "--delete")["runs"]["slow"]
    assert (again["removed"], ranges(again, "kept")) == ([], [(15, 73)])
    assert gc("--keep", "30d", "--with-findings")["runs"]["slow"]["whole"]


def test_a_run_that_another_process_indexes_is_trimmed_by_that_one(tmp_path: Path, gc: Gc) -> None:
    partly, old = run_of_days(tmp_path / "partly", 32.5), run_of_days(tmp_path / "old", 50.5)
    with Indexer(partly.folder) as owner, Indexer(old.folder) as other:
        owner.refresh()
        other.refresh()
        runs = gc("--keep", "30d", "--delete")["runs"]
        assert "the process that indexes it removes them" in runs["partly"]["pending"]
        assert "another process indexes it" in runs["old"]["pending"]
        owner.refresh()
        owner.refresh()
    assert steps_of(partly.folder) == [3, 4, 5]
    assert old.folder.exists()


def test_what_an_interrupted_deletion_left_goes_the_next_time(tmp_path: Path, gc: Gc) -> None:
    run_of_days(tmp_path / "new", 6.5)
    run_of_days(tmp_path / "old", 50.5).folder.rename(tmp_path / ".removed-old")
    gc("--keep", "30d")
    assert (tmp_path / ".removed-old").exists(), "nothing is removed without --delete"
    assert list(gc("--keep", "30d", "--delete")["runs"]) == ["new"]
    assert not (tmp_path / ".removed-old").exists()
    assert delete_leftovers(tmp_path) == []


def test_a_folder_with_other_files_is_left_alone(tmp_path: Path, gc: Gc) -> None:
    folder = run_of_days(tmp_path / "old", 50.5).folder
    (folder / "checkpoint-100").mkdir()
    old = gc("--keep", "30d", "--delete")["runs"]["old"]
    assert old["left_alone"].startswith("it has checkpoint-100, which is not of a run")
    assert (folder / "checkpoint-100").is_dir()


def test_one_damaged_run_keeps_no_other_from_being_looked_at(tmp_path: Path, gc: Gc) -> None:
    broken = run_of_days(tmp_path / "broken", 50.5).folder
    (broken / "run.json").write_text("{")
    run_of_days(tmp_path / "old", 50.5)
    printed = gc("--keep", "30d")
    assert printed["runs"]["old"]["whole"]
    (problem,) = printed["problems"]
    assert problem.startswith("broken is left alone: ")


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--keep", "30 days"], "--keep is '30 days'; give an age such as 30d"),
        (["--keep", "1d", "--keep-content", "x"], "--keep-content is 'x'"),
    ],
)
def test_what_is_no_bound_is_refused_with_a_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], options: list[str], sentence: str
) -> None:
    assert main(["gc", str(tmp_path), *options]) == EXIT_USER_ERROR
    assert sentence in capsys.readouterr().err


def test_pins_are_listed_and_refused_where_they_are_no_link(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = run_of_days(tmp_path / "run", 6.5).folder
    assert main(["pin", str(folder)]) == 0
    assert main(["pin", str(folder), "overview?steps=1..2"]) == 0
    assert main(["pin", str(folder), "/run/run/overview?steps=1..2", "--note", "why"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "no link is pinned",
        "overview?steps=1..2",
        "overview?steps=1..2  why",
    ]
    refused = {
        ("nowhere?steps=1",): "There is no page 'nowhere'",
        ("overview?steps=x",): "The link's field steps cannot be used",
        ("overview", "--remove"): "overview is not pinned in run",
        ("--remove",): "--remove and --note need a link",
    }
    for arguments, sentence in refused.items():
        assert main(["pin", str(folder), *arguments]) == EXIT_USER_ERROR
        assert sentence in capsys.readouterr().err
    (folder / "pins.json").write_text('{"schema": "1.0", "pins": [{"link": 5}]}')
    assert main(["pin", str(folder)]) == EXIT_USER_ERROR
    assert "pins.json" in capsys.readouterr().err
    assert main(["gc", str(folder), "--keep", "1h"]) == 0
    assert "run is left alone: " in capsys.readouterr().out
    with Run(folder) as run:
        assert run.index_rows("SELECT count(*) AS n FROM step_rows") == [{"n": 2 * NUM_STEPS}]
