"""Merging reads rank by rank what sorting everything at once would give."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ingest.index.merging import ROW_GROUP, merged_rows, publish_merged
from tests.runs_builder import table
from trace_hooks.schema import TABLES


def spans(ranks: list[int], times_ns: list[int]) -> pa.Table:
    """Spans of one attempt."""
    common = {"attempt": 0, "step": 0, "dur_ns": 1}
    given = zip(ranks, times_ns, strict=True)
    return table("spans", [{**common, "rank": rank, "ts_ns": ts_ns} for rank, ts_ns in given])


def written(folder: Path, name: str, ranks: list[int], seed: int) -> Path:
    """A segment with the ranks' rows in any order."""
    made = np.random.default_rng(seed)
    times_ns = made.permutation(300) + 1_000 * seed
    path = folder / name
    pq.write_table(spans(made.choice(ranks, 300).tolist(), times_ns.tolist()), path)
    return path


def as_rows(tables: list[pa.Table]) -> list[tuple[int, int, str]]:
    """(rank, ts_ns, name) of each row in the order given."""
    whole = pa.concat_tables(tables).to_pydict()
    return list(zip(whole["rank"], whole["ts_ns"], whole["name"], strict=True))


def test_segments_and_merged_files_become_one_sorted_file(tmp_path):
    segments = [written(tmp_path, f"{n}.parquet", [n, 3, 7], n) for n in range(6)]
    first, whole = tmp_path / "first.parquet", tmp_path / "whole.parquet"
    publish_merged("spans", segments[:4], first, ["a"])
    publish_merged("spans", [first, *segments[4:]], whole, ["b"])
    wanted = sorted(as_rows([pq.read_table(path) for path in segments]))
    assert as_rows([pq.read_table(whole)]) == wanted
    assert pq.read_schema(whole).equals(TABLES["spans"].schema)
    assert sorted(p.name for p in tmp_path.iterdir() if p.name.startswith(".")) == []


@pytest.mark.parametrize("text", [pa.string(), pa.large_string()])
def test_texts_of_any_encoding_are_merged(tmp_path, text):
    """As other tools write them: the manifest takes such files, too."""
    own, other = written(tmp_path, "0.parquet", [0], 0), written(tmp_path, "1.parquet", [0, 1], 1)
    rows = pq.read_table(other)
    columns = [
        column.cast(pa.string()).cast(text) if pa.types.is_dictionary(column.type) else column
        for column in rows.columns
    ]
    pq.write_table(pa.table(columns, names=rows.column_names), other)
    publish_merged("spans", [own, other], tmp_path / "whole.parquet", [])
    merged = pq.read_table(tmp_path / "whole.parquet")
    assert as_rows([merged]) == sorted(as_rows([pq.read_table(own), rows]))
    assert merged.schema.equals(TABLES["spans"].schema)


def test_one_rank_is_in_memory_at_a_time(tmp_path):
    paths = [written(tmp_path, f"{n}.parquet", [0, 1, 2, 3], n) for n in range(3)]
    tables = list(merged_rows("spans", paths))
    assert [set(t.column("rank").to_pylist()) for t in tables] == [{0}, {1}, {2}, {3}]
    assert sum(t.num_rows for t in tables) == 900


def test_row_groups_end_with_their_rank(tmp_path):
    rank = np.repeat(np.arange(5), ROW_GROUP // 2).tolist()
    source = tmp_path / "s.parquet"
    pq.write_table(spans(rank, list(range(len(rank)))), source)
    merged = tmp_path / "m.parquet"
    publish_merged("spans", [source], merged, ["s"])
    with pq.ParquetFile(merged) as file:
        groups = [file.read_row_group(n, ["rank"]) for n in range(file.num_row_groups)]
    assert [sorted(set(g.column("rank").to_pylist())) for g in groups] == [[0, 1], [2, 3], [4]]


def test_a_damaged_file_leaves_nothing_behind(tmp_path):
    good, bad = written(tmp_path, "good.parquet", [1], 1), tmp_path / "bad.parquet"
    bad.write_bytes(good.read_bytes()[:-200])
    with pytest.raises((pa.ArrowException, OSError)):
        publish_merged("spans", [good, bad], tmp_path / "m.parquet", [])
    assert sorted(p.name for p in tmp_path.iterdir()) == ["bad.parquet", "good.parquet"]
