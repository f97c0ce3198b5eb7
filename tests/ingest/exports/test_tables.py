"""Tables as Parquet and CSV, whole or of a window."""

from __future__ import annotations

import csv
import shutil
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from ingest.errors import UserError
from ingest.exports.tables import write_csv, write_parquet
from ingest.exports.window import Window
from ingest.run import Run, open_run
from tests.frame_runs import frame_row
from tests.ingest.exports.test_perfetto import SLOW_RANK, random_run, spans
from tests.runs_builder import RunBuilder, two_rank_run
from trace_hooks.schema import TABLES


def test_a_place_that_cannot_be_written_is_one_sentence(tmp_path: Path) -> None:
    two_rank_run(tmp_path / "run")
    with open_run(tmp_path / "run") as run, pytest.raises(UserError, match="cannot be written"):
        write_csv(run, "spans", Window(), tmp_path / "nowhere" / "out.csv")


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    """A copy of the recorded job, to be read only."""
    folder = tmp_path_factory.mktemp("recorded") / "run"
    shutil.copytree(SLOW_RANK, folder)
    with open_run(folder) as run:
        yield run


@pytest.mark.parametrize("table", list(TABLES))
def test_every_table_comes_out_as_parquet_with_its_schema(
    table: str, recorded: Run, tmp_path: Path
) -> None:
    num_rows = write_parquet(recorded, table, Window(), tmp_path / "a.parquet")
    found = pq.read_table(tmp_path / "a.parquet")
    assert found.schema.equals(TABLES[table].schema)
    assert found.schema.metadata[b"rankscope.table"] == table.encode()
    text = f"SELECT count(*) AS n FROM {table}"
    assert recorded.sql(text, with_content=True).to_pylist() == [{"n": num_rows}]
    assert write_csv(recorded, table, Window(), tmp_path / "a.csv") == num_rows


def test_csv_keeps_every_value(tmp_path: Path) -> None:
    with open_run(random_run(tmp_path / "run", 3)) as run:
        write_csv(run, "spans", Window(), tmp_path / "a.csv")
        expected = [{k: str(v) for k, v in row.items()} for row in spans(run, "rank, ts_ns, name")]
    with (tmp_path / "a.csv").open(newline="", encoding="utf-8") as file:
        rows = [{k: row[k] for k in ("rank", "ts_ns", "name")} for row in csv.DictReader(file)]
    key = str
    assert sorted(rows, key=key) == sorted(expected, key=key)


def test_csv_has_the_numbers_of_frames_in_base64(tmp_path: Path) -> None:
    builder = RunBuilder(tmp_path / "run", 1)
    builder.add("frames", 0, 1, **frame_row(b"\xff\x00"))
    builder.publish()
    with open_run(builder.folder) as run:
        assert write_csv(run, "frames", Window(), tmp_path / "a.csv") == 1
    with (tmp_path / "a.csv").open(newline="", encoding="utf-8") as file:
        (row,) = csv.DictReader(file)
    assert (row["what"], row["shape"], row["data"]) == ("mlp", "2", "/wA=")
