"""Lines of logs for a pane."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.views.logs import log_lines, text_of_line
from app.views.stuck import stuck_of
from ingest.run import open_run
from tests.runs_builder import T0, RunBuilder

S = 1_000_000_000


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    run = RunBuilder(tmp_path / "run", 2)
    given = {"timed": "own", "host": "a", "stream": "stderr", "file": "stderr", "count": 1}
    for rank in range(2):
        for step in range(3):
            text = f"step {step} done"
            row = given | {"line": step + 1, "level": "info", "label": ""}
            row["template"] = "step <n> done"
            run.add("log_lines", rank, step, ts_ns=T0 + step * S, text=text, **row)
    row = given | {"line": 9, "level": "error", "label": "exception", "template": "KeyError: <n>"}
    run.add("log_lines", 1, 2, ts_ns=T0 + 3 * S, text="Traceback\nKeyError: 3", **row)
    run.rank_files()
    run.publish()
    return run.folder


def test_equal_lines_of_ranks_are_one(folder: Path) -> None:
    with open_run(folder) as run:
        found = log_lines(run, None)
    assert found["num_found"] == 7
    assert [(line["who"], line["text"]) for line in found["lines"]] == [
        ("ranks 0 and 1", "step 0 done"),
        ("ranks 0 and 1", "step 1 done"),
        ("ranks 0 and 1", "step 2 done"),
        ("rank 1", "Traceback\nKeyError: 3"),
    ]
    assert found["lines"][-1]["where"] == "stderr:9"


@pytest.mark.parametrize(
    ("asked", "texts"),
    [
        ({"least": "error"}, ["Traceback\nKeyError: 3"]),
        ({"text": "KEYERROR"}, ["Traceback\nKeyError: 3"]),
        ({"ranks": "0", "steps": (1, 2)}, ["step 1 done", "step 2 done"]),
        ({"ranks": "-1"}, []),
    ],
)
def test_what_is_asked_for(folder: Path, asked: dict[str, object], texts: list[str]) -> None:
    with open_run(folder) as run:
        found = log_lines(run, None, **asked)  # type: ignore[arg-type]
    assert [line["text"] for line in found["lines"]] == texts


def test_the_last_lines_of_each_rank(folder: Path) -> None:
    with open_run(folder) as run:
        lines = stuck_of(run, None).lines
    assert [(line["who"], line["text"][:9]) for line in lines] == [
        ("ranks 0 and 1", "step 0 do"),
        ("rank 1", "Traceback"),
    ]


def test_the_whole_text_of_a_line(folder: Path) -> None:
    with open_run(folder) as run:
        assert text_of_line(run, 0, "KeyError: 3", [1]) == "Traceback\nKeyError: 3"
        assert text_of_line(run, 0, "KeyError: 3", [0]) == ""
        assert text_of_line(run, 0, "step 1", []) == "step 1 done"
