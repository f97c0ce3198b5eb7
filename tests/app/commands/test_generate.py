"""rankscope generate: a run that the other verbs can open."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.cli import main
from app.commands.mfu import EXIT_NOT_ENOUGH


def test_it_writes_a_run_and_prints_how_to_inspect_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "job"
    assert main(["generate", str(out), "--steps", "2", "--level", "steps"]) == 0
    assert f"inspect it with: rankscope info {out}" in capsys.readouterr().out
    assert main(["info", str(out)]) == 0
    assert "ranks     8 of 8" in capsys.readouterr().out


def test_one_rank_and_one_step_are_in_the_singular(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    one = ["--ranks", "1", "--pp", "1", "--tp", "1", "--steps", "1", "--level", "steps"]
    assert main(["generate", str(tmp_path / "job"), *one]) == 0
    assert ": 1 rank (pp 1 x dp 1 x tp 1), 1 step, " in capsys.readouterr().out
    assert main(["mfu", str(tmp_path / "job")]) in (0, EXIT_NOT_ENOUGH)
    assert " per step, 1 rank\n" in capsys.readouterr().out


@pytest.mark.parametrize("option", [["--ranks", "7"], ["--fault", "nonsense=1"], ["--steps", "0"]])
def test_impossible_jobs_are_one_sentence(
    tmp_path: Path, option: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["generate", str(tmp_path / "job"), *option]) == 2
    assert capsys.readouterr().err.startswith("rankscope generate: ")
