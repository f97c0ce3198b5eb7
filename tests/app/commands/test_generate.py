"""rankscope generate: a run that the other verbs can open."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.cli import main


def test_it_writes_a_run_and_prints_how_to_inspect_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "job"
    assert main(["generate", str(out), "--steps", "2", "--level", "steps"]) == 0
    assert f"inspect it with: rankscope info {out}" in capsys.readouterr().out
    assert main(["info", str(out)]) == 0
    assert "ranks     8 of 8" in capsys.readouterr().out


@pytest.mark.parametrize("option", [["--ranks", "7"], ["--fault", "nonsense=1"], ["--steps", "0"]])
def test_impossible_jobs_are_one_sentence(
    tmp_path: Path, option: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["generate", str(tmp_path / "job"), *option]) == 2
    assert capsys.readouterr().err.startswith("rankscope generate: ")
