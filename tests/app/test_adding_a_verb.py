"""docs/adding-a-verb.md holds: its module and one line are a verb, its tests pass."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import app.commands
from app.cli import EXIT_USER_ERROR, VERBS, main
from tests.guide_examples import added_entry, added_module, example
from tests.runs_builder import T0, two_rank_run

GUIDE = "adding-a-verb.md"


@pytest.fixture(autouse=True)
def _added(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The guide's module, and its line in VERBS."""
    code = example(GUIDE, "def add_arguments")
    monkeypatch.setitem(VERBS, "memory", added_entry(GUIDE, "memory"))
    with added_module(app.commands, "memory", code, tmp_path / "commands"):
        yield


def test_the_tests_of_the_guide_pass(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    names: dict[str, Any] = {
        "EXIT_USER_ERROR": EXIT_USER_ERROR,
        "Path": Path,
        "T0": T0,
        "main": main,
        "pytest": pytest,
        "two_rank_run": two_rank_run,
    }
    exec(example(GUIDE, "def test_the_most_of_each_rank"), names)
    names["test_the_most_of_each_rank"](tmp_path / "counted", capsys)
    names["test_a_run_without_counters_is_one_sentence"](tmp_path / "uncounted", capsys)


def test_its_help_is_the_docstring_and_json_is_one_object(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        main(["memory", "--help"])
    assert "The most memory that the process of each rank has held." in capsys.readouterr().out
    run = two_rank_run(tmp_path / "run")
    run.add("memory", 0, 1, ts_ns=T0, rss=5_000_000)
    run.publish()
    assert main(["memory", str(run.folder), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"most_mb": {"0": 5.0}}
