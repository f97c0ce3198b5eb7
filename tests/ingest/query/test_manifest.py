"""The manifest: what the footer of a file contains, and which files a query has to open."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pytest

from ingest.query.index_catalog import SETUP
from ingest.query.manifest import Manifest, Narrowing, read_entry
from tests.runs_builder import T0, RunBuilder


@pytest.fixture
def run(tmp_path: Path) -> Path:
    builder = RunBuilder(tmp_path / "run", 2)
    for rank in range(2):
        builder.span(rank, 5 * rank, "forward", 10 * rank, 10 * rank + 4)
    builder.publish()
    return builder.folder


def test_an_entry_has_the_extent_of_its_rows(run: Path) -> None:
    entry, inputs = read_entry(run, "segments/spans-0000-00001-00000000.parquet")
    assert (entry.problem, inputs, entry.num_rows) == (None, [], 1)
    assert (entry.rank_min, entry.rank_max, entry.step_min, entry.step_max) == (1, 1, 5, 5)
    assert (entry.ts_min, entry.ts_max) == (T0 + 10_000, T0 + 14_000)


def test_a_file_that_cannot_be_used_has_a_problem(run: Path) -> None:
    name = "segments/spans-0000-00000-00000000.parquet"
    (run / name).write_bytes(b"no parquet")
    problem = read_entry(run, name)[0].problem
    assert problem is not None
    assert problem.startswith("spans-0000-00000-00000000.parquet was set aside: ")


def test_a_query_opens_only_files_that_can_have_its_rows(run: Path) -> None:
    with duckdb.connect() as connection:
        connection.execute(SETUP)
        manifest = Manifest(connection)
        names = [f"segments/spans-0000-0000{rank}-00000000.parquet" for rank in range(2)]
        manifest.add([read_entry(run, name)[0] for name in names])
        assert manifest.pick("spans") == names
        assert manifest.pick("spans", Narrowing(rank_min=1)) == names[1:]
        assert manifest.pick("spans", Narrowing(step_max=4)) == names[:1]
        assert manifest.pick("spans", Narrowing(ts_min=T0 + 5_000)) == names[1:]
        assert manifest.pick("steps") == []
        manifest.set_aside(names[0], "damaged")
        assert (manifest.pick("spans"), manifest.problems()) == (names[1:], ["damaged"])
        manifest.retire(names[1:], 1)
        assert manifest.pick("spans") == []
        assert manifest.known_paths() == set(names)
