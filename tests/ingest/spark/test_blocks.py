"""What an executor computes of a block of ranks: rows in, rows out, without a cluster."""

from __future__ import annotations

import pyarrow as pa

from ingest.spark.blocks import KNOWN, LATE, TRANSFER, WINDOW, Part, block_rows
from trace_hooks.schema import KINDS, MODES

PART = Part(attempt=0, step_min=3, step_max=3, ranks_at_once=64, relative=False)
SUMS = pa.schema(
    [("rank", pa.int32()), ("step", pa.int64()), ("kind", pa.string())]
    + [(name, pa.int64()) for name in ("compute_ns", "comm_ns", "bubble_late_ns", "time_ns")]
    + [("problem", pa.string())]
)
"""Some of the columns of a pass."""
EAGER = MODES.index("eager")


def spans(*rows: tuple[str, int, int]) -> pa.Table:
    """Spans of rank 7 in step 3: kind, begin, duration."""
    where = {"rank": 7, "step": 3, "cpu_ns": -1, "recompute": None, "mode": EAGER, "track": "main"}
    listed = [
        {**where, "kind": KINDS.index(kind), "ts_ns": begin, "dur_ns": dur}
        for kind, begin, dur in rows
    ]
    whole = {name: pa.int64() for name in ("rank", "step", "ts_ns", "dur_ns", "cpu_ns")}
    types = {**whole, "recompute": pa.bool_(), "kind": pa.int32(), "mode": pa.int32()}
    return pa.Table.from_pylist(listed, pa.schema({**types, "track": pa.string()}))


def marks(*rows: tuple[int, int, int, int]) -> pa.Table:
    """Marks of rank 7: what, step, begin, end."""
    names = ("what", "rank", "step", "begin_ns", "end_ns")
    columns = zip(*((what, 7, step, begin, end) for what, step, begin, end in rows), strict=True)
    return pa.table(dict(zip(names, map(list, columns), strict=True)))


def test_a_block_gives_rows_of_its_steps_and_of_their_kinds() -> None:
    rows = block_rows(
        PART,
        SUMS,
        spans(("dp_comm", 140, 60), ("forward", 110, 30)),
        marks(
            (WINDOW, 2, 0, 100),
            (WINDOW, 3, 100, 200),
            (LATE, 3, 140, 170),
            (TRANSFER, 3, 170, 200),
            (KNOWN, 3, 0, 0),
        ),
    )
    step, *kinds = rows.to_pylist()
    assert (step["kind"], step["compute_ns"], step["comm_ns"]) == (None, 30, 60)
    assert step["bubble_late_ns"] == 30
    assert {row["kind"]: row["time_ns"] for row in kinds} == {"forward": 30, "dp_comm": 60}
    assert {row["step"] for row in rows.to_pylist()} == {3}


def test_waits_are_unknown_where_transfers_are() -> None:
    given = spans(("dp_comm", 140, 60)), marks((WINDOW, 3, 100, 200))
    assert block_rows(PART, SUMS, *given).to_pylist()[0]["bubble_late_ns"] is None


def test_times_centuries_apart_are_a_problem_of_the_block_alone() -> None:
    given = spans(("forward", 0, 10), ("forward", 2**62, 2**61)), marks((WINDOW, 3, 0, 2**62 + 5))
    (row,) = block_rows(PART, SUMS, *given).to_pylist()
    assert row["problem"].startswith("steps 3 to 3 of ranks from 7: ")
    assert row["rank"] is None
