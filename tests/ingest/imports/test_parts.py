"""Files as parts: the one format of an import, and a failing reader costs its file only."""

from __future__ import annotations

from pathlib import Path

import pytest

from ingest.errors import UserError
from ingest.imports.parts import format_of, parts_of, put_together
from ingest.run_folder.run_writer import RunWriter
from tests.hostile.fuzz.seeds import seeds


@pytest.mark.parametrize(
    ("formats", "chosen"),
    [
        ([], ""),
        (["", "kineto", ""], "kineto"),
        (["chrome_trace", "kineto", "chrome_trace"], "kineto"),
        (["chrome_trace"], "chrome_trace"),
        (["logs", "", "chrome_trace", "logs"], "chrome_trace"),
        (["logs", "flight_recorder", "chrome_trace"], "flight_recorder"),
        (["logs"], "logs"),
    ],
)
def test_generic_formats_give_way(formats: list[str], chosen: str) -> None:
    assert format_of((f"f{n}", name) for n, name in enumerate(formats)) == chosen


def test_two_formats_are_refused_by_name() -> None:
    files = [("a", "kineto"), ("b", "chrome_trace"), ("c", "nsys")]
    with pytest.raises(UserError, match="c is a nsys file among kineto files; import each"):
        format_of(files)


def test_a_file_of_a_generic_format_among_others_is_left_out(tmp_path: Path) -> None:
    parts = []
    for name in ("kineto", "chrome_trace"):
        file, content = seeds()[name][0]
        (tmp_path / file).write_bytes(content)
        parts += [
            p for _, p in parts_of(tmp_path / file, tmp_path, lambda _: None, lambda *_: True)
        ]
    (tmp_path / "run" / "segments").mkdir(parents=True)
    writer = RunWriter(tmp_path / "run")
    put_together(parts, "kineto", writer)
    assert list(writer.ranks) == [1]
    assert writer.found.problems == [
        f"{tmp_path / 'a.json'} is a chrome_trace file among kineto files, left out"
    ]
