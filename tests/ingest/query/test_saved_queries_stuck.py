"""rank_looks: which of the watchdog's looks at a rank is taken, and with which stack."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ingest.run import open_run
from tests.runs_builder import T0, RunBuilder

SECOND = 10**9
WAITS, DIES = "wait job/train.py:4", "poll job/train.py:9"


def asked(folder: Path, *looks: dict[str, Any]) -> dict[str, Any]:
    """The answer about a rank that was looked at so, a second apart."""
    run = RunBuilder(folder, 1)
    run.step(0, 0, 0, 100)
    usual = {
        "stack": None,
        "longest_ns": 0,
        "cpu_ns": 0,
        "io_bytes": 0,
        "call": "",
        "pid": 9,
        "process": "S",
        "beat_age_ns": SECOND // 2,
        "num_entered": 31,
        "quiet_ns": 9 * SECOND,
    }
    for number, changed in enumerate(looks):
        run.add("looks", 0, 1, ts_ns=T0 + number * SECOND, **usual | changed)
    run.rank_files()
    run.publish()
    with open_run(run.folder) as opened:
        (row,) = opened.ask("rank_looks").to_pylist()
    return row


@pytest.mark.parametrize(
    ("last", "stack", "earlier"),
    [
        ({"stack": DIES}, DIES, WAITS),
        ({}, WAITS, "wait job/train.py:3"),
        ({"process": "gone"}, WAITS, "wait job/train.py:3"),
        ({"beat_age_ns": 9 * SECOND}, None, WAITS),
        ({"num_entered": 32}, None, None),
    ],
    ids=["with a stack", "without one", "gone since", "it did not answer", "at another place"],
)
def test_a_look_without_stacks_has_those_before_it(
    tmp_path: Path, last: dict[str, Any], stack: str | None, earlier: str | None
) -> None:
    row = asked(tmp_path, {"stack": "wait job/train.py:3"}, {"stack": WAITS}, last)
    assert (row["stack"], row["earlier_stack"]) == (stack, earlier)


@pytest.mark.parametrize(
    ("end", "state"), [("failed", "entered"), ("completed", "completed"), (None, "entered")]
)
def test_a_call_that_failed_after_it_was_seen_waiting_has_entered(
    tmp_path: Path, end: str | None, state: str
) -> None:
    run = RunBuilder(tmp_path / "run", 1)
    run.step(0, 0, 0, 100)
    call = {"group_id": 7, "seq": 31, "op": "all_reduce", "dtype": "float32", "num_bytes": 8}
    call |= {"peer": -1, "tag": -1, "enqueue_ns": T0}
    run.add("entered", 0, 1, ts_ns=T0 + 5 * SECOND, state="entered", **call)
    if end is not None:
        more = {"start_ns": T0, "end_ns": T0 + 9 * SECOND}
        run.add("collectives", 0, 1, state=end, source="wrapper", **call | more)
    run.rank_files()
    run.publish()
    with open_run(run.folder) as opened:
        rows = opened.ask("entered_collectives").to_pylist()
    assert [(row["seq"], row["state"]) for row in rows] == [(31, state)]
