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
from app.analysis.retention.carried_out import CHANGED, carry_out
from app.analysis.retention.planned import BUSY, Plan, aged, planned
from app.cli import EXIT_USER_ERROR, main
from ingest.index import compaction
from ingest.index.deletion import InUse, delete_leftovers, delete_run, foreign_name
from ingest.index.indexer import Indexer
from ingest.index.retention import KEEP_ALL
from ingest.run import Run, open_run
from ingest.run_folder.pins import pin
from tests.runs_builder import T0, US, RunBuilder

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
    begin_us = (time.time_ns() - T0) / US - first_days * DAY_US
    for step in range(NUM_STEPS):
        for rank in range(2):
            at_us = begin_us + step * DAY_US
            run.step(rank, step, at_us, at_us + 100)
            run.span(rank, step, "forward", at_us, at_us + 60)
        run.publish()
    written_at(folder, T0 + round(at_us * US))
    return run


def written_at(folder: Path, ns: int) -> None:
    """Set when the files of a run were written."""
    for path in folder.rglob("*"):
        if path.is_file():
            os.utime(path, ns=(ns, ns))


def resumed(run: RunBuilder, days_ago: float = 0.0) -> None:
    """A job starts attempt 1 in the folder and records a step."""
    begin_us = (time.time_ns() - T0) / US - days_ago * DAY_US
    run.rank_files(attempt=1)
    run.step(0, 9, begin_us, begin_us + 100, attempt=1)
    run.span(0, 9, "forward", begin_us, begin_us + 60, attempt=1)
    run.publish()


def whole_plan(folder: Path) -> Plan:
    """What gc plans for a run of which everything is too old."""
    plan = planned(aged(folder), time.time_ns() - 30 * DAY_US * US)
    assert plan.is_whole
    return plan


def steps_of(folder: Path) -> list[int]:
    with open_run(folder) as run:
        text = "SELECT DISTINCT step FROM spans ORDER BY step"
        return run.execute(text, {}).column("step").to_pylist()


def ranges(run: dict[str, Any], key: str = "removed") -> list[tuple[int, int]]:
    return [(one["first_step"], one["last_step"]) for one in run[key]]


def test_without_delete_it_only_says_what_would_go(
    tmp_path: Path, gc: Gc, capsys: pytest.CaptureFixture[str]
) -> None:
    run_of_days(tmp_path / "old", 50.5)
    run_of_days(tmp_path / "partly", 32.5)
    run_of_days(tmp_path / "new", 6.5)
    runs = gc("--keep", "30d")["runs"]
    assert runs["old"]["whole"]
    assert ranges(runs["partly"]) == [(0, 2)]
    assert not runs["new"]["whole"] | bool(runs["new"]["removed"])
    assert main(["gc", str(tmp_path), "--keep", "30d", "--dry-run"]) == 0
    printed = capsys.readouterr().out
    assert "old would go: its newest row is from before" in printed
    assert "partly: steps 0 to 2 would go" in printed
    assert "new stays: " in printed
    assert "nothing is removed yet; --delete removes 1 of 3 runs and steps of 1 more," in printed
    for name in ("old", "partly", "new"):
        assert steps_of(tmp_path / name) == [0, 1, 2, 3, 4, 5]


def test_what_is_too_old_goes_and_the_second_time_there_is_nothing(tmp_path: Path, gc: Gc) -> None:
    run_of_days(tmp_path / "old", 50.5)
    live = run_of_days(tmp_path / "live", 50.5, ended=False)
    live.add("heartbeats", 0, -1, ts_ns=time.time_ns())
    live.publish()
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
    for run in ("older", "newer"):
        written_at(tmp_path / run, time.time_ns())  # so that their files are not merged at once
    size = sum(path.stat().st_size for path in newer.folder.glob("segments/*"))
    runs = gc("--keep", f"{size / 1e6 + 0.001:.6f}MB")["runs"]
    assert ranges(runs["older"]) == [(0, 3)]
    assert ranges(runs["newer"]) == [(0, 1)]
    assert not gc("--keep", "1GB")["runs"]["older"]["removed"]


@pytest.mark.long
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


@pytest.mark.long
def test_findings_keep_the_steps_around_them(
    tmp_path: Path, gc: Gc, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(diagnosis, "MOST_CELLS", 1)  # diagnose examines the newest 40 steps
    fault = "slow_worker=2,x=1.6,from=40,to=48"
    folder = tmp_path / "slow"
    sizes = ["--ranks", "4", "--pp", "1", "--tp", "1", "--steps", "90", "--microbatches", "2"]
    assert main(["generate", str(folder), *sizes, "--fault", fault]) == 0
    written_at(folder, 0)  # an import is as old as its files
    slow = gc("--keep", "30d", "--delete")["runs"]["slow"]
    assert ranges(slow) == [(0, 14), (74, 89)]
    assert "finding slow_worker-0-2-40" in slow["kept"][0]["why"]
    again = gc("--keep", "30d", "--delete")["runs"]["slow"]
    assert (again["removed"], ranges(again, "kept")) == ([], [(15, 73)])
    assert gc("--keep", "30d", "--with-findings")["runs"]["slow"]["whole"]


@pytest.mark.long
def test_a_run_that_another_process_indexes_is_trimmed_by_that_one(tmp_path: Path, gc: Gc) -> None:
    partly, old = run_of_days(tmp_path / "partly", 32.5), run_of_days(tmp_path / "old", 50.5)
    with Indexer(partly.folder) as owner, Indexer(old.folder) as other:
        owner.refresh()
        other.refresh()
        runs = gc("--keep", "30d", "--delete")["runs"]
        assert "the process that indexes it removes them" in runs["partly"]["pending"]
        assert "another process indexes it" in runs["old"]["left_alone"] + runs["old"]["pending"]
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


def test_a_folder_with_other_folders_is_left_alone(tmp_path: Path, gc: Gc) -> None:
    folder = run_of_days(tmp_path / "old", 50.5).folder
    (folder / ".git").mkdir()
    old = gc("--keep", "30d", "--delete")["runs"]["old"]
    assert old["left_alone"].startswith("it has .git, which is not of a run")
    assert (folder / ".git").is_dir()


@pytest.mark.parametrize("name", ["checkpoint-100", ".hydra", ".run.json.1.tmp", ".notes.1.tmp"])
def test_hidden_folders_and_those_of_other_programs_are_not_of_a_run(
    tmp_path: Path, name: str
) -> None:
    (tmp_path / "segments").mkdir()
    assert foreign_name(tmp_path) == ""
    (tmp_path / name).mkdir()
    assert foreign_name(tmp_path) == name


def test_files_that_a_killed_writer_left_go_with_their_run(tmp_path: Path, gc: Gc) -> None:
    folder = run_of_days(tmp_path / "old", 50.5).folder
    for name in (".run.json.12.tmp", ".nfs0000000001"):
        (folder / name).touch()
        os.utime(folder / name, (0, 0))
    gc("--keep", "30d", "--delete")
    assert not folder.exists()


def test_a_run_that_a_job_resumed_after_the_plan_is_not_deleted(tmp_path: Path) -> None:
    run = run_of_days(tmp_path / "old", 50.5)
    plan = whole_plan(run.folder)
    resumed(run)
    assert carry_out(plan, KEEP_ALL)
    assert steps_of(run.folder) == [0, 1, 2, 3, 4, 5, 9]


def test_rows_that_came_after_the_plan_count_whenever_their_file_was_written(
    tmp_path: Path,
) -> None:
    run = run_of_days(tmp_path / "old", 50.5)
    plan = whole_plan(run.folder)
    resumed(run, 2.0)
    written_at(run.folder, 0)
    assert carry_out(plan, KEEP_ALL)
    assert steps_of(run.folder) == [0, 1, 2, 3, 4, 5, 9]


def test_deletion_looks_at_the_files_and_pins_itself(tmp_path: Path) -> None:
    run = run_of_days(tmp_path / "old", 50.5)
    plan = whole_plan(run.folder)
    (run.folder / "job.log").write_text("begins")
    with pytest.raises(InUse):
        delete_run(run.folder, plan.before_ns, plan.pins)
    os.utime(run.folder / "job.log", (0, 0))
    pin(run.folder, "overview?steps=1..2")
    with pytest.raises(InUse):
        delete_run(run.folder, plan.before_ns, plan.pins)
    assert (run.folder / "run.json").exists()


def test_rows_that_another_process_has_not_published_keep_the_run(tmp_path: Path, gc: Gc) -> None:
    run = run_of_days(tmp_path / "old", 50.5)
    with Indexer(run.folder) as owner:
        owner.refresh()
        resumed(run, 2.0)
        written_at(run.folder, 0)
        old = gc("--keep", "30d", "--delete")["runs"]["old"]
        assert (old["left_alone"], old["whole"], old["removed"]) == (BUSY, False, [])
    assert steps_of(run.folder) == [0, 1, 2, 3, 4, 5, 9]


@pytest.mark.long
def test_pins_made_after_the_plan_keep_their_steps(tmp_path: Path) -> None:
    old, partly = run_of_days(tmp_path / "old", 50.5), run_of_days(tmp_path / "partly", 32.5)
    whole = whole_plan(old.folder)
    for plan in (whole, planned(aged(partly.folder), whole.before_ns)):
        pin(plan.folder, "overview?steps=1..2")
        assert carry_out(plan, KEEP_ALL) == CHANGED
    assert steps_of(old.folder) == steps_of(partly.folder) == [0, 1, 2, 3, 4, 5]


@pytest.mark.parametrize(
    ("days", "ended", "why"),
    [
        (100.0, False, "it has not ended, and the times in its newest rows"),
        (19_000.0, False, "from before the year 2000"),
        (19_000.0, True, "from before the year 2000"),
    ],
)
def test_a_job_with_a_wrong_clock_loses_nothing(
    tmp_path: Path, gc: Gc, days: float, ended: bool, why: str
) -> None:
    run = run_of_days(tmp_path / "run", days, ended)
    if not ended:
        run.rank_files(attempt=1)  # which has recorded nothing yet
    written_at(run.folder, time.time_ns())
    left_alone = gc("--keep", "30d", "--delete")["runs"]["run"]["left_alone"]
    assert why in left_alone
    assert "check the clocks of its hosts" in left_alone
    assert steps_of(run.folder) == [0, 1, 2, 3, 4, 5]


def test_a_run_can_be_removed_from_inside_its_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = run_of_days(tmp_path / "old", 50.5).folder
    monkeypatch.chdir(folder)
    assert main(["gc", ".", "--keep", "30d", "--delete"]) == 0
    assert "old is removed: its newest row is from before" in capsys.readouterr().out
    assert not folder.exists()


def test_what_another_gc_deletes_meanwhile_is_no_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hidden = run_of_days(tmp_path / "old", 50.5).folder.rename(tmp_path / ".removed-old")
    unlink = os.unlink

    def taken(path: str, **where: int) -> None:
        unlink(path, **where)
        unlink(path, **where)  # as if another process had been first

    monkeypatch.setattr(os, "unlink", taken)
    assert delete_leftovers(tmp_path) == ["old"]
    assert not hidden.exists()


def test_only_what_is_gone_counts_as_removed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    run_of_days(tmp_path / "old", 50.5)
    monkeypatch.setattr("app.commands.gc.carry_out", lambda *_: CHANGED)
    assert main(["gc", str(tmp_path), "--keep", "30d", "--delete"]) == 0
    printed = capsys.readouterr().out
    assert f"old is left alone: {CHANGED}" in printed
    assert "removed nothing of 1 run; about" in printed


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


def test_one_run_is_spoken_of_as_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run_of_days(tmp_path / "run", 6.5)
    assert main(["gc", str(tmp_path), "--keep", "30d"]) == 0
    assert "--delete would remove nothing of 1 run; about" in capsys.readouterr().out


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
        ("nowhere?steps=1",): "There is no page 'nowhere'; the pages are overview, timeline,",
        ("http://a:8050/run/other/overview?steps=1",): "the link shows the run other, not run;",
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
