"""Answers that are small on their way and large for whoever reads them: the server stays small."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.runs_builder import RunBuilder

_MOST_BYTES = 400 << 20
_READS = """
import json, resource, sys
from app.views.run.query import answered, csv_pieces
from ingest.errors import UserError
from ingest.run import open_run
run_folder, way = sys.argv[1:]
text = sys.stdin.read()
with open_run(run_folder) as run:
    run.sql("SELECT 1")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    resource.setrlimit(resource.RLIMIT_AS, (6 << 30, 6 << 30))
    try:
        if way == "page":
            found = len(answered(run, (text, None)).rows)
        else:
            found = sum(len(piece) for piece, _ in zip(csv_pieces(run, (text, None)), range(8)))
    except UserError as error:
        found = str(error)
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(json.dumps([found, (after - before) * 1024]))
"""
LARGE = {
    "lists of numbers": "SELECT range(3500) AS x FROM range(8192)",
    "an ENUM's long text in many rows": f"SELECT x FROM (SELECT '{'a' * 50_000}'::ENUM('{'a' * 50_000}', 'b') AS x), range(8192)",
    "long texts": "SELECT repeat('x', 30000) AS x FROM range(8192)",
    "many columns": "WITH a0 AS (SELECT true AS x), "
    + ", ".join(f"a{i + 1} AS (SELECT *, * FROM a{i})" for i in range(10))
    + " FROM a10, range(8000)",
}
TOO_LARGE = {
    "a list of NULLs": "SELECT list_resize([NULL], 20000000) AS x",
    "a list of truths": "SELECT list_resize([true], 20000000) AS x",
    "a list of structs": "SELECT list_transform(range(300000), lambda y: {'k': y, 'l': y}) AS x",
    "a map": "SELECT map_from_entries(list_zip(range(300000), range(300000))) AS x",
    "one text": "SELECT repeat('x', 100000000) AS x",
}
_DOUBLED = ", ".join(f"a{i + 1} AS (SELECT *, * FROM a{i})" for i in range(11)) + " FROM a11"
_ENUM = f"'a'::ENUM('a', '{'b' * 900_000}')"
LONG_ENUMS = {
    "in many columns": f"WITH a0 AS (SELECT {_ENUM} AS x), {_DOUBLED}",
    "in many columns without rows": f"WITH a0 AS (SELECT {_ENUM} AS x WHERE false), {_DOUBLED}",
    "in lists": f"WITH a0 AS (SELECT [{_ENUM}] AS x), {_DOUBLED}",
    "in empty lists": f"WITH a0 AS (SELECT [{_ENUM}][2:] AS x), {_DOUBLED}",
    "in arrays": f"WITH a0 AS (SELECT array_value(y) AS x FROM (SELECT {_ENUM} AS y)), {_DOUBLED}",
    "in structs": f"WITH a0 AS (SELECT {{'k': {_ENUM}, 'l': NULL}} AS x), {_DOUBLED}",
    "in maps": f"WITH a0 AS (SELECT map([1], [{_ENUM}]) AS x), {_DOUBLED}",
    "in unions": f"WITH a0 AS (SELECT union_value(k := {_ENUM}) AS x), {_DOUBLED}",
}


def _read(tmp_path: Path, way: str, text: str) -> tuple[int | str, int]:
    """What was found (rows of the page, bytes of CSV, or a sentence), and by how much it grew."""
    built = RunBuilder(tmp_path / "run")
    built.rank_files()
    command = [sys.executable, "-c", _READS, str(built.folder), way]
    done = subprocess.run(
        command, input=text, capture_output=True, text=True, timeout=120, check=True
    )
    found, grown = json.loads(done.stdout)
    return found, grown


@pytest.mark.long
@pytest.mark.parametrize("way", ["page", "csv"])
@pytest.mark.parametrize("answer", LARGE)
def test_a_large_answer_is_read_in_portions(tmp_path: Path, answer: str, way: str) -> None:
    found, grown = _read(tmp_path, way, LARGE[answer])
    assert isinstance(found, int), found
    assert found > 0
    assert grown < _MOST_BYTES


@pytest.mark.long
@pytest.mark.parametrize("answer", TOO_LARGE)
def test_a_row_that_is_too_large_gets_a_sentence(tmp_path: Path, answer: str) -> None:
    found, grown = _read(tmp_path, "page", TOO_LARGE[answer])
    assert found == (
        "SQL: a row of the answer takes more than 32 MB; select shorter texts or lists"
    )
    assert grown < _MOST_BYTES


@pytest.mark.long
def test_names_of_columns_have_a_limit(tmp_path: Path) -> None:
    doubled = ", ".join(f"a{i + 1} AS (SELECT *, * FROM a{i})" for i in range(5))
    text = f'WITH a0 AS (SELECT true AS "{"x" * 500_000}"), {doubled} FROM a5'
    found, grown = _read(tmp_path, "page", text)
    assert "the names of the 32 columns" in str(found)
    assert grown < _MOST_BYTES


@pytest.mark.long
@pytest.mark.parametrize("where", LONG_ENUMS)
def test_values_of_enums_have_a_limit_over_all_columns(tmp_path: Path, where: str) -> None:
    found, grown = _read(tmp_path, "page", LONG_ENUMS[where])
    if where != "in many columns without rows":
        assert found == (
            "SQL: the values of the answer's ENUMs take more than 32 MB over all of its columns; "
            "select fewer columns, or cast them to VARCHAR"
        )
    assert grown < _MOST_BYTES
