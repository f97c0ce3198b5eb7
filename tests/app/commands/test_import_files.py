"""rankscope import: the run and what was wrong with the files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from app.cli import main
from tests.app.commands.test_info import TRACE


def test_import_prints_the_run_and_its_guesses(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "rank-4.json"
    path.write_text(TRACE)
    arguments = ["import", str(path), "--into", str(tmp_path / "runs"), "--name", "mine"]
    assert main(arguments) == 0
    lines = capsys.readouterr().out.splitlines()
    folder = Path(lines[0])
    assert folder.parent == tmp_path / "runs"
    assert folder.name.startswith("mine-")
    assert lines[1].startswith("guess: ")
    assert main([*arguments, "--json"]) == 0
    again = json.loads(capsys.readouterr().out)
    assert (again["folder"], again["format"]) == (str(folder), "kineto")
    assert again["known"]
    assert main(arguments) == 0
    assert "these files had already been imported" in capsys.readouterr().out
