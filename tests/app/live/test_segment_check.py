"""What ranks send is Parquet of the schema and their own, or the check says what is wrong."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from app.live import segment_check
from app.live.segment_check import problem_of
from tests.runs_builder import DEFAULTS, table
from trace_hooks.recording.arrow_columns import placed, row_table
from trace_hooks.recording.clock import Anchor
from trace_hooks.schema import TABLES, SegmentName, publish_table

NAME = SegmentName("steps", 2, 3, 0)
FAR_RANK = 0x00A1B2C3


def steps(num: int = 3, **more: Any) -> pa.Table:
    rows = [
        {"attempt": 2, "rank": 3, "step": step, "start_ns": step, "dur_ns": 1, **more}
        for step in range(num)
    ]
    return table("steps", rows)


def written(rows: pa.Table, **options: Any) -> bytes:
    buffer = io.BytesIO()
    pq.write_table(rows, buffer, **options)
    return buffer.getvalue()


def labelled(rows: pa.Table, **labels: str) -> pa.Table:
    metadata = {f"rankscope.{name}".encode(): text.encode() for name, text in labels.items()}
    return rows.replace_schema_metadata({**(rows.schema.metadata or {}), **metadata})


def cast(rows: pa.Table, column: str, kind: pa.DataType) -> pa.Table:
    index = rows.schema.get_field_index(column)
    return rows.cast(rows.schema.set(index, pa.field(column, kind, nullable=False)))


def with_a_null(rows: pa.Table, column: str) -> pa.Table:
    index = rows.schema.get_field_index(column)
    kind = rows.schema.field(column).type
    values = pa.array([None] * rows.num_rows, kind)
    return rows.set_column(index, pa.field(column, kind), values)


def lying() -> bytes:
    """A file whose footer claims that its rows are of the next rank."""
    content = written(steps(rank=FAR_RANK))
    size = int.from_bytes(content[-8:-4], "little")
    body, footer = content[: -8 - size], content[-8 - size :]
    true, claimed = (rank.to_bytes(4, "little") for rank in (FAR_RANK, FAR_RANK + 1))
    assert true in footer
    return body + footer.replace(true, claimed)


def problem(tmp_path: Path, content: bytes, name: SegmentName = NAME) -> str:
    path = tmp_path / str(name)
    path.write_bytes(content)
    return problem_of(path, name)


@pytest.mark.parametrize("name", sorted(TABLES))
def test_what_hooks_write_is_sound(tmp_path: Path, name: str) -> None:
    segment = SegmentName(name, 2, 3, 0)
    values = {c.name: DEFAULTS.get(c.name) for c in TABLES[name].columns}
    values |= {"data": b"x"} if "data" in values else {}
    row = {n: v for n, v in values.items() if v is not None and n not in ("attempt", "rank")}
    rows = row_table(name, [row, {**row, "step": 4}], Anchor())
    publish_table(placed(name, [rows], 2, 3), tmp_path / str(segment))
    assert problem_of(tmp_path / str(segment), segment) == ""


def test_other_minor_versions_are_sound(tmp_path: Path) -> None:
    older = labelled(steps(), schema="1.0").drop_columns(["lr"])
    assert problem(tmp_path, written(older)) == ""
    newer = labelled(steps(), schema="1.99").append_column("more", pa.array([1, 2, 3]))
    assert problem(tmp_path, written(newer)) == ""
    assert problem(tmp_path, written(steps(0))) == ""


UNFIT: dict[str, tuple[Callable[[], bytes], str]] = {
    "nothing": (lambda: b"", "cannot be read as Parquet"),
    "text": (lambda: b"rows" * 100, "cannot be read as Parquet"),
    "cut": (lambda: written(steps())[:-20], "cannot be read as Parquet"),
    "torn": (lambda: _torn(written(steps(1000))), "cannot be read as Parquet"),
    "other table": (
        lambda: written(
            table("marks", [{"attempt": 2, "rank": 3, "step": 0, "ts_ns": 1, "kind": "a"}])
        ),
        "holds the table 'marks'",
    ),
    "no labels": (lambda: written(steps().replace_schema_metadata({})), "other labels"),
    "a merged file's labels": (
        lambda: written(labelled(steps(), inputs="segments/x")),
        "other labels",
    ),
    "a newer major": (lambda: written(labelled(steps(), schema="2.0")), "has schema '2.0'"),
    "no version": (lambda: written(labelled(steps(), schema="x\x1b")), "has schema"),
    "a column less": (lambda: written(steps().drop_columns(["dur_ns"])), "lacks columns"),
    "a column more": (
        lambda: written(steps().append_column("x", pa.array([1, 2, 3]))),
        "has a column 'x'",
    ),
    "a column twice": (
        lambda: written(steps().append_column("rank", pa.array([1, 2, 3]))),
        "others among them",
    ),
    "another type": (lambda: written(cast(steps(), "dur_ns", pa.float64())), "has dur_ns as"),
    "a step that no job has": (
        lambda: written(steps(step=2**62 + 1)),
        f"has step {2**62 + 1}; no job has one beyond {2**62}",
    ),
    "a time that no job has": (lambda: written(steps(start_ns=-(2**63))), "has start_ns -92233"),
    "another rank": (lambda: written(steps(rank=4)), "has rows of rank 4"),
    "a host's rows in a table of ranks": (lambda: written(steps(rank=-1)), "has rows of rank -1"),
    "another attempt": (lambda: written(steps(attempt=1)), "has rows of attempt 1"),
    "mixed ranks": (
        lambda: written(pa.concat_tables([steps(), steps(rank=7)])),
        "has rows of rank 7",
    ),
    "nulls": (lambda: written(with_a_null(steps(), "rank")), "has no rank in some of its rows"),
    "no statistics": (lambda: written(steps(), write_statistics=False), "has no statistics"),
    "many row groups": (lambda: written(steps(70), row_group_size=1), "has 70 row groups"),
    "many rows": (lambda: written(steps(1).take(pa.repeat(0, 1_000_001))), "has 1,000,001 rows"),
}


def _torn(content: bytes) -> bytes:
    return content[:200] + b"\xff" * 400 + content[600:]


@pytest.mark.parametrize("kind", sorted(UNFIT))
def test_what_is_not_a_segment_is_a_problem(tmp_path: Path, kind: str) -> None:
    make, sentence = UNFIT[kind]
    message = problem(tmp_path, make())
    assert message.startswith(f"{NAME}, sent by rank 3, ")
    assert sentence in message
    assert len(message) < 400


def test_a_footer_that_names_another_rank_is_a_problem(tmp_path: Path) -> None:
    name = SegmentName("steps", 2, FAR_RANK, 0)
    assert problem(tmp_path, written(steps(rank=FAR_RANK)), name) == ""
    assert "has statistics of rank that its rows contradict" in problem(tmp_path, lying(), name)


def test_a_footer_of_too_many_bytes_is_a_problem_before_anything_is_decoded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(segment_check, "MOST_DECODED_BYTES", 1_000)
    monkeypatch.delattr(segment_check, "_check_rows")
    assert "bytes when decompressed" in problem(tmp_path, written(steps(5_000)))
