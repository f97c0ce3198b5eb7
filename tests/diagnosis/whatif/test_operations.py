"""Rows in, dense arrays out; what cannot be an array is refused or left out by name."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from diagnosis.whatif.operations import NotAnswerable, Operations, Sizes, dense

SCHEMA = pa.schema(
    {
        "step": pa.int64(),
        "dp": pa.int8(),
        "stage": pa.int8(),
        "rank": pa.int32(),
        "optype": pa.string(),
        "seq": pa.int32(),
        "chunk": pa.int8(),
        "start_s": pa.float32(),
        "duration_s": pa.float32(),
    }
)


def rows_of(step: int, dp: int, stage: int) -> list[dict[str, Any]]:
    """A forward, a backward and an optimizer of one cell."""
    ops = (("forward-compute", 0.0, 1.0), ("backward-compute", 1.0, 2.0), ("optimizer", 3.0, 0.5))
    return [
        {
            "step": step,
            "dp": dp,
            "stage": stage,
            "rank": 10 * stage + dp,
            "optype": optype,
            "seq": 0,
            "chunk": 0 if optype.endswith("compute") else -1,
            "start_s": start + dp,
            "duration_s": duration + step,
        }
        for optype, start, duration in ops
    ]


def table(rows: list[dict[str, Any]]) -> pa.Table:
    return pa.Table.from_pylist(rows, SCHEMA)


def job(steps: tuple[int, ...] = (7, 3, 5)) -> list[dict[str, Any]]:
    return [
        r for step in steps for dp in (0, 1) for stage in (0, 1) for r in rows_of(step, dp, stage)
    ]


def solved(rows: list[dict[str, Any]]) -> Operations:
    return dense(table(rows), Sizes(2, 2))


def test_every_row_has_its_place_whatever_the_order() -> None:
    rows = job()
    np.random.default_rng(1).shuffle(rows)  # type: ignore[arg-type]
    ops = solved(rows)
    assert ops.step_S.tolist() == [3, 5, 7]
    assert ops.optypes == ("forward-compute", "backward-compute", "optimizer")
    assert ops.stage_O.tolist() == [0, 0, 0, 1, 1, 1]
    assert ops.type_O.tolist() == [0, 1, 2, 0, 1, 2]
    assert ops.chunk_O.tolist() == [0, 0, -1, 0, 0, -1]
    assert ops.rank_PD.tolist() == [[0, 1], [10, 11]]
    assert ops.start_OSD[1].tolist() == [[1, 2]] * 3
    assert ops.duration_OSD[4].tolist() == [[5, 5], [7, 7], [9, 9]]
    assert ops.end_OSD.dtype == np.float32
    assert ops.notes == ()


@pytest.mark.parametrize("change", ["a row less", "a row more", "another type"])
def test_a_step_unlike_the_others_is_left_out_by_name(change: str) -> None:
    rows = job((3, 5, 7))
    at = next(i for i, row in enumerate(rows) if row["step"] == 5 and row["dp"] == 1)
    if change == "a row less":
        del rows[at]
    elif change == "a row more":
        rows.append(rows[at] | {"seq": 1})
    else:
        rows[at] = rows[at] | {"optype": "gc"}
    ops = solved(rows)
    assert ops.step_S.tolist() == [3, 7]
    assert ops.optypes == ("forward-compute", "backward-compute", "optimizer")
    assert ops.notes == (
        "1 of 3 steps are left out, because their cells have other operations than most: 5",
    )
    assert ops.duration_OSD[0].tolist() == [[4, 4], [8, 8]]


def test_the_order_comes_from_a_step_that_is_kept() -> None:
    rows = [row for row in job((3, 5, 7)) if row["step"] > 3 or row["optype"] != "optimizer"]
    ops = solved(rows)
    assert ops.step_S.tolist() == [5, 7]
    assert ops.reference == 0


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([], "there are no operations in any step"),
        ([r for r in job() if (r["dp"], r["stage"]) != (1, 0)], "first stage 0 of dp rank 1"),
        ([*job(), job()[0] | {"stage": 2}], "stages up to 2 and dp ranks up to 1, but the layout"),
        ([*job(), job()[0] | {"optype": "backwards"}], "unknown types: 'backwards'"),
        (
            [*job(), job()[0] | {"optype": None}],
            "1 operations are of a type the analysis",
        ),
        ([*job(), job()[0] | {"dp": None}], "whose stage or dp rank is unknown"),
        ([r | {"start_s": float("nan")} for r in job()], "no finite start_s"),
        ([r | {"seq": i} for i, r in enumerate(job((1,)))], "no common graph"),
    ],
)
def test_what_cannot_be_replayed_is_one_sentence(rows: list[dict[str, Any]], message: str) -> None:
    with pytest.raises(NotAnswerable, match=message):
        solved(rows)


def test_sizes_count_from_one() -> None:
    with pytest.raises(ValueError, match="whole numbers from 1"):
        Sizes(0, 2)
