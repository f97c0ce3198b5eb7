"""The hardware causes of findings, on rows built by hand."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from diagnosis.findings import Evidence, Finding, Place
from diagnosis.hardware_causes import (
    PROCESS_SIGNS,
    SIGNS,
    Window,
    hosts_of,
    window_of,
    with_hardware_cause,
)
from tests.diagnosis.answer_schema import answer_schema
from trace_hooks.telemetry.names import METRICS

SCHEMA = answer_schema(
    "metric VARCHAR,device VARCHAR,before DOUBLE,after DOUBLE,last_before DOUBLE,last_after DOUBLE,"
    "unreadable VARCHAR"
)
WINDOW = Window(1_000.0, 120.0, 300.0)


def finding(kind: str = "slow_worker", **values: Any) -> Finding:
    given: dict[str, Any] = {
        "kind": kind, "attempt": 0, "severity": "urgent", "confidence": "high", "title": "Slow",
        "text": "Slow since step 4.", "culprits": (Place(5, "node5"),), "first_step": 4,
        "last_step": 9, "ongoing": True, "evidence": (Evidence("1 ms.", 1.0, "ms", "rank_work"),),
        "alternatives": (), "next_step": "Look.", "cause": "Rank 5 takes longer.",
    }  # fmt: skip
    return Finding(**(given | values))


def caused(
    metric: str, before: float | None, after: float | None, kind: str = "slow_worker",
    device: str = "gpu:A",
) -> Finding:  # fmt: skip
    row = {"metric": metric, "device": device, "before": before, "after": after}
    row |= {"last_before": before, "last_after": after, "unreadable": None}
    levels = {"node5": pa.Table.from_pylist([row], schema=SCHEMA)}
    return with_hardware_cause(finding(kind), levels, WINDOW)


@pytest.mark.parametrize(
    ("metric", "before", "after", "kind", "words"),
    [
        ("gpu_sm_clock_mhz", 1980.0, 1110.0, "slow_worker", "from 1,980 MHz to 1,110 MHz"),
        ("gpu_clock_event_reasons", 1.0, 64.0, "slow_worker", "hardware thermal slowdown"),
        ("gpu_pcie_width", 16.0, 8.0, "slow_host", "the PCIe link narrows"),
        ("cpu_steal_seconds_total", 0.0, 0.7, "slow_worker", "cores taken by the hypervisor"),
        ("cgroup_cpu_throttled_seconds_total", 0.0, 0.5, "slow_worker", "CPU quota"),
        ("swapped_in_pages_total", 0.0, 900.0, "slow_worker", "swapping"),
        ("net_carrier_changes_total", 0.0, 0.02, "link_flap", "the link went down and up"),
        ("nic_link_downed_total", 0.0, 0.01, "link_flap", "the link went down and up"),
        ("tcp_retransmitted_segments_total", 0.3, 60.0, "slow_link", "lost and sent again"),
        ("net_receive_pause_frames_total", 1.0, 900.0, "slow_node_link", "the network pauses it"),
        ("pressure_io_some_seconds_total", 0.003, 0.6, "slow_checkpoint", "some task waits for a"),
        ("nic_symbol_errors_total", 0.0, 3.0, "slow_link", "errors of the cable"),
    ],
)
def test_what_changed_is_the_cause(
    metric: str, before: float, after: float, kind: str, words: str
) -> None:
    made = caused(metric, before, after, kind)
    assert made.cause.startswith("Rank 5 takes longer. Hardware cause: ")
    assert words in made.cause
    assert "node5" in made.cause
    evidence = made.evidence[-1]
    assert (evidence.question, evidence.number) == ("device_levels", after)
    assert dict(evidence.params)["split_s"] == 1_000.0


@pytest.mark.parametrize(
    ("metric", "before", "after", "kind"),
    [
        ("gpu_sm_clock_mhz", 1980.0, 1960.0, "slow_worker"),
        ("gpu_clock_event_reasons", 64.0, 64.0, "slow_worker"),
        ("tcp_retransmitted_segments_total", 40.0, 60.0, "slow_link"),
        ("tcp_retransmitted_segments_total", 0.0, 60.0, "slow_worker"),
        ("gpu_sm_clock_mhz", 1980.0, 900.0, "link_flap"),
        ("gpu_power_watts", 600.0, 200.0, "slow_worker"),
    ],
)
def test_what_did_not_change_or_explains_nothing_is_none(
    metric: str, before: float, after: float, kind: str
) -> None:
    made = caused(metric, before, after, kind)
    assert len(made.evidence) == 1
    assert "changed with it" in made.cause or "not recorded of node5" in made.cause


def test_signs_are_metrics_of_the_sampler() -> None:
    signs = (*SIGNS, *PROCESS_SIGNS)
    assert [name for sign in signs for name in sign.metrics if name not in METRICS] == []
    counters = {name for sign in signs if sign.way == "counts" for name in sign.metrics}
    assert [name for name in counters if not METRICS[name].is_counter] == []


def test_the_most_telling_signs_come_first_and_three_are_named() -> None:
    changed = [
        ("pressure_cpu_some_seconds_total", 0.0, 0.6),
        ("swapped_in_pages_total", 0.0, 900.0),
        ("cgroup_cpu_throttled_seconds_total", 0.0, 0.5),
        ("gpu_sm_clock_mhz", 1_980.0, 1_110.0),
    ]
    rows = [
        {"metric": metric, "device": "host", "before": before, "after": after,
         "last_before": before, "last_after": after, "unreadable": None}
        for metric, before, after in changed
    ]  # fmt: skip
    made = with_hardware_cause(
        finding(), {"node5": pa.Table.from_pylist(rows, schema=SCHEMA)}, WINDOW
    )
    assert [evidence.number for evidence in made.evidence[1:]] == [1_110.0, 0.5, 900.0]
    assert "0 s/s to 0.5 s/s" in made.cause
    assert "tasks wait" not in made.cause


def levels_of(*rows: tuple[str, str, float, float]) -> pa.Table:
    """Rows of device_levels: metric, device, before, after."""
    return pa.Table.from_pylist(
        [
            {"metric": metric, "device": device, "before": before, "after": after,
             "last_before": before, "last_after": after, "unreadable": None}
            for metric, device, before, after in rows
        ],
        schema=SCHEMA,
    )  # fmt: skip


def test_only_processes_of_ranks_that_are_named_count() -> None:
    faults = "process_major_faults_total"

    def cause(of_4: float, of_5: float) -> str:
        rows = [(faults, f"process rank {r}", 0.0, n) for r, n in ((4, of_4), (5, of_5))]
        return with_hardware_cause(finding(), {"node5": levels_of(*rows)}, WINDOW).cause

    assert "Hardware cause: none of" in cause(900.0, 1.0)
    assert "reads its memory from a disk on process rank 5 of node5" in cause(1.0, 900.0)


def test_a_rank_that_computes_more_does_not_wait_for_a_core() -> None:
    waits, runs, rank = "process_wait_seconds_total", "process_cpu_seconds_total", "process rank 5"
    busier = levels_of((waits, rank, 0.1, 0.3), (runs, rank, 0.2, 0.6))
    made = with_hardware_cause(finding("launch_skew"), {"node5": busier}, WINDOW)
    assert "Hardware cause: none of" in made.cause
    crowded = levels_of((waits, rank, 0.1, 0.6), (runs, rank, 0.2, 0.2))
    made = with_hardware_cause(finding("launch_skew"), {"node5": crowded}, WINDOW)
    assert "the main thread waits for a core on process rank 5" in made.cause


def test_a_stopped_process_is_a_cause() -> None:
    stopped = levels_of(("process_stopped", "process rank 5", 0.0, 0.4))
    made = with_hardware_cause(finding(), {"node5": stopped}, WINDOW)
    assert "the process is stopped by a signal or a debugger on process rank 5" in made.cause


def test_where_nobody_is_named_most_hosts_have_to_show_it() -> None:
    nobody = finding("slow_checkpoint", culprits=())
    assert hosts_of(nobody, ("a", "b", "c")) == ("a", "b", "c")
    assert hosts_of(finding("loss_spike", culprits=()), ("a", "b", "c")) == ()
    waits = "pressure_io_full_seconds_total"
    full, idle = levels_of((waits, "host", 0.0, 0.6)), levels_of((waits, "host", 0.0, 0.0))
    of_most = with_hardware_cause(nobody, {"a": full, "b": full, "c": idle}, WINDOW)
    assert "tasks wait for a disk on a" in of_most.cause
    slower = finding("step_regression", culprits=())
    of_job = with_hardware_cause(slower, {"a": full, "b": full}, WINDOW)
    assert "tasks wait for a disk on a" in of_job.cause
    of_one = with_hardware_cause(nobody, {"a": full, "b": idle, "c": idle}, WINDOW)
    assert "Hardware cause: none of" in of_one.cause


def test_nothing_recorded() -> None:
    for levels, window in (({}, WINDOW), ({"node5": SCHEMA.empty_table()}, WINDOW), ({}, None)):
        made = with_hardware_cause(finding(), levels, window)
        assert made.cause.endswith("Hardware cause: not recorded (no metrics of its machine).")
        slower = finding("step_regression", culprits=())
        assert with_hardware_cause(slower, levels, window) == slower


def test_other_findings_stay_as_they_are() -> None:
    other = finding("loss_spike")
    assert hosts_of(other) == ()
    assert with_hardware_cause(other, {}, WINDOW) == other


def test_hosts_and_window() -> None:
    both = finding("slow_link", culprits=(Place(1, "a"), Place(2, "b")), hosts=("a",))
    assert hosts_of(both) == ("a", "b")
    second = 1_000_000_000
    clock = pa.table({"step": [3, 4, 9], "begin_ns": [10 * second, 20 * second, 70 * second],
                      "end_ns": [20 * second, 30 * second, 80 * second]})  # fmt: skip
    assert window_of(finding(), clock) == Window(20.0, 120.0, 60.0)
    twice = finding(episodes=((4, 4), (9, 9)))
    assert window_of(twice, clock) == Window(20.0, 120.0, 15.0)
    assert window_of(finding(first_step=40, last_step=50), clock) is None
