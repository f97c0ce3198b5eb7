"""What readers of GPU profiles have in common: rows of tables, texts, and what is refused."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ingest.limits import Limits
from ingest.readers.parsing.sources import sources
from ingest.readers.parsing.sqlite_file import Database
from ingest.readers.parsing.trace_events import MAX_NS
from ingest.readers.tables import gpu_profile
from ingest.readers.tables.gpu_profile import Profile, are_times, is_database, read_profile
from ingest.readers.tables.process_ranks import Processes
from ingest.readers.tables.staged_rows import StagedRows
from ingest.run_folder.run_writer import RunWriter
from tests.ingest.readers.test_nsys import database

TABLES = {
    "texts": ("id, value", [(1, "gemm"), (2, None), ("3", "no number"), (None, "none")]),
    "work": ('"start", "end", name', [(100, 150, 1), (200, None, 1), (300, 310, 9), (5, 9, 2)]),
}


class Work(Profile):
    """A format of one table of texts and one of work."""

    def read(self) -> None:
        """All of it is of process 7."""
        self.read_texts("texts", "id", "value")
        for start_ns, end_ns, name in self.rows("work", "start", "end", "name"):
            if not are_times(start_ns, end_ns):
                self.processes.num_bad += 1
                continue
            text = self.text(name) or "unnamed"
            self.processes.of(7).add(start_ns, end_ns - start_ns, "kernel", text, "GPU 0")
        list(self.rows("missing", "x"))  # another version of the format
        list(self.rows("work", "start", "colour"))
        self.tell_bad_rows()


def read(path: Path) -> tuple[Processes | None, list[str]]:
    """What the file holds, and what is wrong with it."""
    folder = path.parent / "run"
    folder.mkdir(exist_ok=True)
    staged, writer = StagedRows(folder), RunWriter(folder)
    opened = sources([path], lambda _: None)  # which closes a file when the next one is taken
    processes = read_profile(next(opened), staged, Work, "no work")
    staged.give_to(writer)
    return processes, [problem.removeprefix(f"{path}: ") for problem in writer.found.problems]


@pytest.mark.parametrize("packed", [False, True])
def test_rows_have_texts_and_bad_ones_are_counted(tmp_path: Path, packed: bool) -> None:
    path = database(tmp_path / "a.sqlite", TABLES)
    if packed:
        path = tmp_path / "a.gz"
        path.write_bytes(gzip.compress((tmp_path / "a.sqlite").read_bytes()))
    processes, problems = read(path)
    assert problems == ["table work has no colour", "1 rows without usable times left out"]
    assert processes is not None
    assert processes.ranks() == [7]
    writer = RunWriter(tmp_path / "run")
    processes.write(writer, 0, lambda process: 70)
    assert len(processes.of(7)) == 3
    assert writer.ranks[0]["pid"] == 70


def names(path: Path) -> list[str]:
    """Texts of numbers from 1 on."""
    with Database(path) as opened:
        profile = Work(opened, Processes("a"))
        assert profile.read_texts("texts", "id", "value")
        return [profile.text(number) for number in (1, 2, 3, "1", None)]


def test_only_numbers_name_texts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = database(tmp_path / "a.sqlite", TABLES)
    assert names(path) == ["gemm", "None", "", "", ""]
    monkeypatch.setattr(gpu_profile, "limits", lambda: Limits(max_rows=1))
    assert names(path) == ["gemm", "", "", "", ""]


def test_a_database_without_texts_has_none(tmp_path: Path) -> None:
    with Database(database(tmp_path / "a.sqlite", {"work": TABLES["work"]})) as opened:
        assert not Work(opened, Processes("a")).read_texts("texts", "id", "value")


@pytest.mark.parametrize(
    ("content", "problem"),
    [(b"SQLite format 3\x00" + b"\xff" * 5000, "damaged SQLite"), (b"no database", "database")],
)
def test_what_cannot_be_read_is_a_problem(tmp_path: Path, content: bytes, problem: str) -> None:
    (tmp_path / "a.sqlite").write_bytes(content)
    processes, [found] = read(tmp_path / "a.sqlite")
    assert (processes, problem in found) == (None, True)


def test_a_database_without_work_is_a_problem(tmp_path: Path) -> None:
    path = database(tmp_path / "a.sqlite", {"work": (TABLES["work"][0], [])})
    assert read(path) == (None, ["table work has no colour", "holds no work"])


def never(_: Any) -> bool:
    return False


@pytest.mark.parametrize(
    ("in_head", "in_tables", "expected"),
    [
        (lambda head: b"CREATE TABLE" in head, never, True),
        (never, lambda opened: opened.has("work", "texts"), True),
        (never, lambda opened: opened.has("work", "other"), False),
    ],
)
def test_a_format_is_known_by_its_first_bytes_or_its_tables(
    tmp_path: Path,
    in_head: Callable[[bytes], bool],
    in_tables: Callable[[Database], bool],
    expected: bool,
) -> None:
    path = database(tmp_path / "a.sqlite", TABLES)
    [found] = [is_database(one, in_head, in_tables) for one in sources([path], lambda _: None)]
    assert found == expected


def test_other_files_are_of_no_such_format(tmp_path: Path) -> None:
    contents = {"text": b"work", "damaged": b"SQLite format 3\x00" + b"\xff" * 5000}
    for name, content in contents.items():
        (tmp_path / name).write_bytes(content)
    paths = [tmp_path / name for name in contents]
    assert [
        is_database(one, never, lambda opened: opened.has("work"))
        for one in sources(paths, lambda _: None)
    ] == [False, False]


@pytest.mark.parametrize(
    ("start", "end", "expected"),
    [(1, 2, True), (-5, 0, True), (1, MAX_NS, False), (True, 2, False), (1.0, 2, False)],
)
def test_times_are_whole_numbers_of_this_age(start: Any, end: Any, expected: bool) -> None:
    assert are_times(start, end) == expected
    assert not are_times(start, None)
