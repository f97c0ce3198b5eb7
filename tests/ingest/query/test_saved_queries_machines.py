"""The questions about machines: rates of counters that reset, changes, what could not be read."""

from __future__ import annotations

import math
import random
from pathlib import Path
from typing import Any

import pytest

from tests.ingest.query.built_run import answer
from tests.runs_builder import T0, RunBuilder

S = 1_000_000_000
FAULTS = "nic:mlx5_0/1"


@pytest.fixture
def builder(tmp_path: Path) -> RunBuilder:
    return RunBuilder(tmp_path / "run", 2, hosts=["h0", "h1"])


def sample(builder: RunBuilder, second: float, metric: str, value: float, **more: Any) -> None:
    """One sample of h0, at the step of its second."""
    rank = more.pop("rank", -1)
    state = "unreadable: EACCES" if math.isnan(value) else "value" if value else "zero"
    values = {"host": "h0", "device": "host", "state": state, "scope": "host"} | more
    ts_ns = T0 + round(second * S)
    builder.add(
        "host_metrics", rank, int(second), ts_ns=ts_ns, metric=metric, value=value, **values
    )


def test_a_rate_skips_what_a_reset_hides(builder: RunBuilder) -> None:
    for number, value in enumerate([100, 150, 200, 5, 55, 105]):  # 10 a second, and a restart
        sample(builder, 5 * number, "net_received_bytes_total", value, device="net:eth0")
    rows = answer(builder, "host_metric_series", metric="net_received_bytes_total").to_pylist()
    assert [row["value"] for row in rows] == [10.0, 10.0, 10.0]
    assert [row["num_resets"] for row in rows] == [0, 1, 0]
    assert [row["num_samples"] for row in rows] == [2, 2, 2]
    assert [row["bin_ns"] for row in rows] == [T0, T0 + 10 * S, T0 + 20 * S]


def test_a_counter_with_nothing_before_it_has_no_rate(builder: RunBuilder) -> None:
    sample(builder, 0, "net_received_bytes_total", 100)
    rows = answer(builder, "host_metric_series", metric="net_received_bytes_total").to_pylist()
    assert [row["value"] for row in rows] == [None]


def test_gauges_are_means_with_extremes_and_unreadable_is_not_zero(builder: RunBuilder) -> None:
    for second, value in enumerate([1.0, 0.0, 5.0, math.nan]):
        sample(builder, second, "gpu_power_watts", value, device="gpu:a")
    (row,) = answer(builder, "host_metric_series", metric="gpu_power_watts").to_pylist()
    assert (row["value"], row["least"], row["most"]) == (2.0, 0.0, 5.0)
    assert (row["num_samples"], row["num_unreadable"]) == (3, 1)


def test_series_of_one_device_host_rank_and_window(builder: RunBuilder) -> None:
    for second in range(4):
        sample(builder, second, "gpu_power_watts", second, device="gpu:a")
        sample(builder, second, "gpu_power_watts", 9, device="gpu:b", host="h1")
        sample(builder, second, "process_threads", 3, device="process", rank=1)
    ask = {"metric": "gpu_power_watts,process_threads", "bin_ns": S}
    values = answer(builder, "host_metric_series", **ask, device="gpu:a").column("value")
    assert values.to_pylist() == [0, 1, 2, 3]
    window = {"begin_ns": T0 + S, "end_ns": T0 + 2 * S}
    rows = answer(builder, "host_metric_series", **ask, host="h0", rank=-1, **window).to_pylist()
    assert [row["value"] for row in rows] == [1, 2]
    assert set(answer(builder, "host_metric_series", **ask, rank=1).column("rank").to_pylist()) == {
        1
    }


def test_times_of_a_host_are_aligned_like_its_lowest_ranks(builder: RunBuilder) -> None:
    builder.add("clocks", 0, -1, ts_ns=T0, offset_ns=0)
    builder.add("clocks", 1, -1, ts_ns=T0, offset_ns=7 * S)
    sample(builder, 0, "cpu_cores", 2, host="h1")
    rows = answer(builder, "host_metric_series", metric="cpu_cores", bin_ns=S).to_pylist()
    assert [row["bin_ns"] for row in rows] == [T0 + 7 * S]


def test_cells_take_devices_of_a_kind_together(builder: RunBuilder) -> None:
    for second in range(3):
        sample(builder, second, "gpu_power_watts", 100, device="gpu:a")
        sample(builder, second, "gpu_power_watts", 300, device="gpu:b")
        sample(builder, second, "net_received_bytes_total", 10 * second, device="net:eth0")
    rows = answer(builder, "host_metric_cells").to_pylist()
    assert [(r["kind"], r["value"], r["least"], r["most"], r["num_devices"]) for r in rows] == [
        ("gpu", 200, 100, 300, 2),
        ("net", 10, 10, 10, 1),
    ]
    later = answer(builder, "host_metric_cells", step_min=5).to_pylist()
    assert later == []


def test_files_before_schema_1_3_have_no_device_and_no_state(builder: RunBuilder) -> None:
    sample(builder, 0, "gpu_util", 90, device=None, state=None, scope=None)
    sample(builder, 1, "gpu_util", math.nan, device=None, state=None, scope=None)
    (row,) = answer(builder, "host_metric_series", metric="gpu_util").to_pylist()
    assert (row["device"], row["value"], row["num_unreadable"]) == ("host", 90, 1)


def test_what_could_not_be_read_last(builder: RunBuilder) -> None:
    not_there = "unreadable: not there: no NVIDIA driver on this host"
    sample(builder, 0, "nvidia_readable", math.nan, state=not_there)
    sample(builder, 0, "nvidia_readable", math.nan, state=not_there, host="h1")
    sample(builder, 0, "process_read_bytes_total", math.nan, device="process", rank=1)
    sample(builder, 0, "gpu_power_watts", math.nan, device="gpu:a")
    sample(builder, 1, "gpu_power_watts", 5, device="gpu:a")  # it could be read again
    rows = answer(builder, "unreadable_metrics").to_pylist()
    assert [(r["kind"], r["metric"], r["reason"], r["is_there"], r["num_hosts"]) for r in rows] == [
        ("process", "process_read_bytes_total", "EACCES", True, 1),
        ("host", "nvidia_readable", "not there: no NVIDIA driver on this host", False, 2),
    ]
    assert rows[1]["hosts"] == ["h0", "h1"]
    assert rows[1]["first_ns"] == T0


def noise(seed: int, middle: float, spread: float) -> float:
    return random.Random(seed).gauss(middle, spread)


def test_a_clock_that_falls_names_step_and_reason(builder: RunBuilder) -> None:
    for second in range(60):
        sample(builder, second, "gpu_sm_clock_mhz", 1980 if second < 40 else 1110, device="gpu:a")
        sample(builder, second, "gpu_sm_clock_mhz", 1980, device="gpu:b")
        reasons = 0 if second < 40 else 0x20
        sample(builder, second, "gpu_clock_event_reasons", reasons, device="gpu:a")
    rows = answer(builder, "machine_changes").to_pylist()
    clock = next(row for row in rows if row["metric"] == "gpu_sm_clock_mhz")
    assert (clock["device"], clock["kind"], clock["step"]) == ("gpu:a", "state", 40)
    assert (clock["before"], clock["after"], clock["clock_events"]) == (1980, 1110, 0x20)
    assert {row["device"] for row in rows} == {"gpu:a"}


def test_a_counter_that_stood_still_and_rises(builder: RunBuilder) -> None:
    for second in range(30):
        sample(builder, second, "nic_link_downed_total", 3 + (second >= 20), device=FAULTS)
        sample(builder, second, "nic_symbol_errors_total", 3, device=FAULTS)
    (row,) = answer(builder, "machine_changes").to_pylist()
    assert (row["kind"], row["step"], row["before"], row["after"]) == ("count", 20, 3, 4)


def test_a_counter_of_ordinary_work_that_stood_still_is_no_change(builder: RunBuilder) -> None:
    """As those of an idle disk beside a GPU, and of pressure, which is news."""
    for second in range(30):
        for metric in (
            "disk_read_bytes_total",
            "disk_busy_seconds_total",
            "cpu_steal_seconds_total",
        ):
            sample(builder, second, metric, 3 + (second >= 20))
        sample(builder, second, "pressure_memory_full_seconds_total", 3 + (second >= 20))
    (row,) = answer(builder, "machine_changes").to_pylist()
    assert row["metric"] == "pressure_memory_full_seconds_total"


def test_what_is_mostly_zero_before_and_after_is_no_change(builder: RunBuilder) -> None:
    for second in range(80):
        value = float(second % 7 == 3)
        sample(builder, second, "pressure_io_full_seconds_total", second // 7 * 0.1 + value * 0)
        sample(builder, second, "processes_blocked", value)
    assert answer(builder, "machine_changes").num_rows == 0


def test_changes_of_some_metrics_only(builder: RunBuilder) -> None:
    for second in range(30):
        for metric in ("nic_link_downed_total", "nic_symbol_errors_total", "nic_active_total"):
            sample(builder, second, metric, 3 + (second >= 20), device=FAULTS)
    wanted = "nic_link_downed_total,nic_symbol_errors_total,x"
    rows = answer(builder, "machine_changes", metrics=wanted).to_pylist()
    assert [row["metric"] for row in rows] == wanted.split(",")[:2]


def test_a_rate_that_falls_is_a_level(builder: RunBuilder) -> None:
    total = 0.0
    for second in range(60):
        total += max(noise(second, 100 if second < 30 else 40, 2), 0)
        sample(builder, second, "net_received_bytes_total", total, device="net:eth0")
    (row,) = answer(builder, "machine_changes").to_pylist()
    assert row["kind"] == "level"
    assert abs(row["step"] - 30) <= 1
    assert row["before"] == pytest.approx(100, rel=0.05)
    assert row["after"] == pytest.approx(40, rel=0.1)


def test_noise_a_spike_and_the_start_are_no_changes(builder: RunBuilder) -> None:
    for second in range(80):
        value = 5 if second == 0 else 500 if second == 50 else noise(second, 100, 5)
        sample(builder, second, "gpu_power_watts", value, device="gpu:a")
    assert answer(builder, "machine_changes").num_rows == 0


def test_a_reset_is_no_change(builder: RunBuilder) -> None:
    for second in range(40):
        sample(builder, second, "nic_symbol_errors_total", 7 if second < 20 else 0, device=FAULTS)
    assert answer(builder, "machine_changes").num_rows == 0
