"""What the part about NCCL makes of rows, ring, kernels and Flight Recorder: made-up ones, no GPU
has run for these tests.
"""

from __future__ import annotations

from typing import Any

from benchmarks.gpu.figures import Figure
from benchmarks.gpu.jobs.collectives import DDP, REDUCES
from benchmarks.gpu.parts import nccl


def row(seq: int, at_ns: int, **more: Any) -> dict[str, Any]:
    return {
        "group_id": 7,
        "seq": seq,
        "op": "all_reduce",
        "peer": -1,
        "tag": -1,
        "step": REDUCES[0],
        "source": "wrapper",
        "enqueue_ns": at_ns,
        "start_ns": at_ns + 10_000,
        "end_ns": at_ns + 60_000,
        "state": "completed",
    } | more


def entry(at_ns: int, **more: Any) -> dict[str, Any]:
    return {"profiling_name": "nccl:all_reduce", "time_created_ns": at_ns} | more


def by_name(figures: list[Figure]) -> dict[str, Figure]:
    return {figure.name: figure for figure in figures}


def test_a_call_that_the_ring_lacks_is_found() -> None:
    rows = [row(1, 0), row(2, 5), row(3, 9, source="flight_recorder")]
    assert nccl.not_in_ring(rows, rows[:1]) == [rows[1]]
    assert nccl.not_in_ring(rows, [*rows[:1], rows[1] | {"op": "broadcast"}]) == [rows[1]]


def test_calls_without_a_row_are_counted_by_operation() -> None:
    rows = [row(1, 0), row(2, 5, source="flight_recorder")]
    lacking = nccl.not_recorded({"all_reduce": 2, "barrier": 1}, rows)
    assert lacking == {"all_reduce": 1, "barrier": 1}


def test_a_call_enqueued_after_its_kernel_does_not_hold() -> None:
    kernels = [(20_000, 50_000), (1_020_000, 1_050_000)]
    good = {"rows": [row(2, 1_000_000), row(1, 0)], "reduce_kernels": kernels}
    figures = by_name(nccl.kernel_figures("x", [good]))
    assert figures["x: enqueue to kernel, least"].holds
    assert figures["x: enqueue to kernel, least"].value == 20.0
    assert figures["x: from a row's start to its kernel"].value == 10.0
    assert figures["x: from a kernel's end to its row's"].value == 10.0
    assert figures["x: waited calls without an end"].holds
    late = {"rows": [row(1, 0), row(2, 1_200_000, end_ns=-1)], "reduce_kernels": kernels}
    figures = by_name(nccl.kernel_figures("x", [late]))
    assert figures["x: enqueue to kernel, least"].holds is False
    assert figures["x: waited calls without an end"].holds is False


def test_kernels_that_cannot_be_paired_are_reported() -> None:
    (figure,) = nccl.kernel_figures("x", [{"rows": [row(1, 0)], "reduce_kernels": []}])
    assert str(figure.value).startswith("not here: 0 kernels")
    assert figure.holds is None


def test_rows_of_ddp_are_held_against_the_flight_recorder() -> None:
    rows = [
        row(seq, 1_000_000 * seq, step=DDP[0], source="flight_recorder", end_ns=-1)
        for seq in (1, 2)
    ]
    flight = [entry(-900_000_000), entry(1_000_000), entry(2_000_000)]  # the first is of before
    figures = by_name(nccl.ddp_figures("x", [{"rows": rows, "flight": flight}]))
    assert figures["x: DDP's all-reduces without a row"].holds
    assert figures["x: DDP's all-reduces with an end"].value == 0
    one = by_name(nccl.ddp_figures("x", [{"rows": rows[:1], "flight": flight}]))
    assert one["x: DDP's all-reduces without a row"].holds is False
    none = by_name(nccl.ddp_figures("x", [{"rows": [], "flight": []}]))
    assert none["x: DDP's all-reduces without a row"].holds is False


def test_durations_are_held_against_kernels() -> None:
    rank = {
        "rows": [row(1, 0)],
        "reduce_kernels": [(20_000, 50_000)],
        "flight": [
            entry(-900_000_000, duration_ms=9.0),
            entry(5_000, duration_ms=0.031, time_discovered_completed_ns=40_050_000),
        ],
    }
    figures = by_name(nccl.duration_figures("x", [rank]))
    assert round(float(figures["x: Flight Recorder's duration less its kernel's"].value), 3) == 1.0
    assert figures["x: its end after the kernel's"].value == 40.0


def test_costs_are_reported_next_to_their_noise() -> None:
    rank = {"bare": [10.0, 12.0], "bare again": [11.0, 11.0], "hooked": [15.0, 17.0]}
    costs = [rank | {"hooked, host times": [12.0, 14.0]}]
    values = [figure.value for figure in nccl.cost_figures(costs)]
    assert values == [11.0, 0.0, 5.0, 2.0]
