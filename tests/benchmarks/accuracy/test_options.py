"""Options of the benchmark that do not fit end it with one sentence."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import pytest

from benchmarks.accuracy.__main__ import main
from benchmarks.accuracy.before_after import main as before_after
from benchmarks.accuracy.cases import Case
from benchmarks.accuracy.judge import Outcome
from benchmarks.accuracy.outcomes import append, outcomes_in
from benchmarks.accuracy.recorded_noise import main as record_noise

CASE = Case("phase_log", "late_in_data", "loud", 0, 7)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--worlds", "phase_log,nope"], "there is no world 'nope'; the worlds are native, trace"),
        (["--worlds", "phase_log", "--kinds", "slow_link"], "there is no kind 'slow_link' in"),
        (["--rival", "nope"], "--rival nope: write package.module:function"),
        (["--case", "nope"], "there is no case 'nope'"),
        (["--case", "phase_log-late_in_data-any-0"], "there is no case 'phase_log-late"),
        (["--resume", "no_such_folder/file.jsonl"], "no_such_folder is no folder"),
        (["--worlds", "phase_log", "--per-dose", "0", "--healthy", "0"], "leave no job"),
    ],
)
def test_options_that_do_not_fit(options: list[str], sentence: str) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--seed", "7", *options])
    assert sentence in str(ended.value)


def test_folders_that_do_not_fit(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match=r"has no recorded noise \(\*\.npz\)"):
        main(["--worlds", "resampled", "--noise", str(tmp_path)])
    with pytest.raises(SystemExit, match="exists already: --keep makes a new folder"):
        main(["--case", CASE.name, "--seed", "7", "--keep", str(tmp_path)])


def test_recordings_do_not_replace_each_other(tmp_path: Path) -> None:
    first, _ = CASE.drawn().write(tmp_path / "a")
    second, _ = CASE.drawn().write(tmp_path / "b")
    with pytest.raises(SystemExit, match="has a recording logs already"):
        record_noise([str(first), str(second), "--into", str(tmp_path / "noise")])
    with pytest.raises(SystemExit, match="does not exist; check the path"):
        record_noise([str(tmp_path / "none"), "--into", str(tmp_path / "noise")])


def test_a_file_of_something_else(tmp_path: Path) -> None:
    path = tmp_path / "other.jsonl"
    path.write_text("{}\n")
    with pytest.raises(SystemExit, match="has lines that are no outcomes of this benchmark"):
        main(["--resume", str(path)])


def test_files_that_cannot_be_compared(tmp_path: Path) -> None:
    path, other = tmp_path / "one.jsonl", tmp_path / "other.jsonl"
    append(Outcome(CASE), path)
    append(Outcome(Case("phase_log", "late_in_data", "loud", 0, 8)), other)
    with pytest.raises(SystemExit, match="there is no file"):
        before_after([str(path), str(tmp_path / "none")])
    with pytest.raises(SystemExit, match="no job in common"):
        before_after([str(path), str(other)])


def test_a_line_that_was_cut_off_costs_no_other(tmp_path: Path) -> None:
    path = tmp_path / "outcomes.jsonl"
    whole = json.dumps(asdict(Outcome(CASE)))
    path.write_text(f"{whole}\n{whole[:40]}")
    append(Outcome(CASE, shape="next"), path)
    assert [outcome.shape for outcome in outcomes_in(path)] == ["", "next"]
