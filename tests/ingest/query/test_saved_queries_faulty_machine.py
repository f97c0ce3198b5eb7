"""The questions about metrics of machines: rows in, table out."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

from tests.ingest.query.built_run import answer
from tests.runs_builder import T0, RunBuilder

SECOND = 1_000_000_000
AT = T0 // SECOND


def machines(folder: Path, offset_ns: int = 0) -> RunBuilder:
    """Ranks on hosts a and b; steps of a second."""
    run = RunBuilder(folder / "run", 2, hosts=["a", "b"])
    for rank in range(2):
        run.add("clocks", rank, -1, ts_ns=T0, offset_ns=offset_ns * rank)
        for step in range(8):
            run.step(rank, step, step * 1e6, (step + 1) * 1e6)
            run.span(rank, step, "forward", step * 1e6, (step + 1) * 1e6)
    return run


def sample(
    run: RunBuilder, host: str, metric: str, second: float, value: float, **more: Any
) -> None:
    ts_ns = T0 + round(second * SECOND)
    more = {"device": "host", "state": "value", **more}
    run.add("host_metrics", -1, -1, host=host, metric=metric, ts_ns=ts_ns, value=value, **more)


def test_counters_are_rates_and_a_reset_is_left_out(tmp_path: Path) -> None:
    run = machines(tmp_path)
    for second, value in enumerate([100.0, 110.0, 130.0, 5.0, 9.0]):
        sample(run, "a", "x_total", second, value)
    (row,) = answer(run, "machine_seconds").to_pylist()
    assert (row["host"], row["metric"], row["of"]) == ("a", "x_total", "")
    assert row["seconds"] == [AT + 1, AT + 2, AT + 4]
    assert row["values"] == [10.0, 20.0, 4.0]


def test_of_several_devices_the_least_and_the_most(tmp_path: Path) -> None:
    run = machines(tmp_path)
    for device, value in (("gpu:A", 1.0), ("gpu:B", 3.0)):
        sample(run, "a", "gpu_power_watts", 0, value, device=device)
    sample(run, "b", "gpu_power_watts", 0, 2.0, device="gpu:C")
    rows = answer(run, "machine_seconds").to_pylist()
    assert [(row["host"], row["of"], row["values"]) for row in rows] == [
        ("a", "least", [1.0]),
        ("a", "most", [3.0]),
        ("b", "least", [2.0]),
        ("b", "most", [2.0]),
    ]


def test_unreadable_samples_and_those_of_ranks_are_left_out(tmp_path: Path) -> None:
    run = machines(tmp_path)
    sample(run, "a", "x", 0, math.nan, state="unreadable: EACCES")
    sample(run, "a", "x", 1, 4.0)
    run.add("host_metrics", 0, -1, host="a", metric="y", ts_ns=T0, value=1.0)
    (row,) = answer(run, "machine_seconds").to_pylist()
    assert (row["seconds"], row["values"]) == ([AT + 1], [4.0])


def test_times_are_aligned_and_bounds_hold(tmp_path: Path) -> None:
    run = machines(tmp_path, offset_ns=2 * SECOND)
    for second in range(6):
        sample(run, "b", "x", second, float(second))
    (row,) = answer(run, "machine_seconds", newest_s=2).to_pylist()
    assert row["seconds"] == [AT + 6, AT + 7]  # two seconds later on rank 0's clock
    (row,) = answer(run, "machine_seconds", from_s=AT + 4, until_s=AT + 5, host="b").to_pylist()
    assert row["values"] == [2.0, 3.0]
    assert answer(run, "machine_seconds", host="a").num_rows == 0


def test_levels_before_and_after(tmp_path: Path) -> None:
    run = machines(tmp_path)
    for second in range(6):
        sample(run, "a", "clock_mhz", second, 1_900.0 if second < 3 else 1_100.0, device="gpu:A")
        sample(run, "a", "errors_total", second, 0.0 if second < 4 else 7.0, device="nic:x/1")
    sample(run, "a", "power", 1, math.nan, state="unreadable: EACCES")
    rows = answer(run, "device_levels", host="a", split_s=float(AT + 3)).to_pylist()
    found = {row["metric"]: row for row in rows}
    clock, errors = found["clock_mhz"], found["errors_total"]
    assert (clock["device"], clock["before"], clock["after"]) == ("gpu:A", 1_900.0, 1_100.0)
    assert errors["before"] == 0.0
    assert errors["after"] == pytest.approx(7 / 3)
    assert found["power"]["unreadable"] == "unreadable: EACCES"
    assert found["power"]["before"] is None


def test_when_steps_began(tmp_path: Path) -> None:
    rows = answer(machines(tmp_path), "step_clock", step_min=3, step_max=4).to_pylist()
    assert [(row["step"], row["begin_ns"]) for row in rows] == [
        (3, T0 + 3 * SECOND),
        (4, T0 + 4 * SECOND),
    ]


def test_ranks_that_were_seen_stopped(tmp_path: Path) -> None:
    run = machines(tmp_path)
    for rank, second, value in [(1, 0, 0.0), (1, 2, 1.0), (1, 5, 0.0), (1, 6, 1.0), (0, 3, 0.0)]:
        run.add(
            "host_metrics", rank, second, host="ab"[rank], metric="process_stopped",
            ts_ns=T0 + second * SECOND, value=value, device="process", state="value",
        )  # fmt: skip
    rows = answer(run, "stopped_ranks").to_pylist()
    assert [(row["rank"], row["host"], row["step"], row["held_s"]) for row in rows] == [
        (1, "b", 2, 3.0),
        (1, "b", 6, None),
    ]
    assert answer(run, "stopped_ranks", step_max=3).num_rows == 1
