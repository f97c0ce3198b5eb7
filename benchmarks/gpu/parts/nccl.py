"""(d) What the hooks record of collectives over NCCL, with one process for each GPU.

With one GPU the group has one rank: calls, ring, Flight Recorder and costs are real, but NCCL
launches a kernel for averages only, and none for the sums that DDP uses; figures about kernels of
sums need two GPUs.

How to read it. The ring must have every call before NCCL gets it, and a call's enqueue time must
lie before its kernel begins (both in Unix ns; the profiler's clock is tied to the host's within
some microseconds, hence the tolerance). `start` and `end` of a row are CUDA events around the
call on the job's stream; the part measures how much longer they make it than its kernel. The Flight
Recorder has durations with TORCH_NCCL_ENABLE_TIMING only, and its times of completion are those at
which torch's watchdog checked, up to some 100 ms late. DDP starts its all-reduces in C++, where no
hook sees them: their rows have the end that DDP's own log or NCCL's timing tells. The cost is CPU
time of the calling thread; the same loop runs twice without hooks, to measure the noise.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import torch

from benchmarks.gpu.children import Job
from benchmarks.gpu.figures import Figure, Place
from benchmarks.gpu.jobs.collectives import DDP, REDUCES, WARM_UP
from benchmarks.gpu.spread import spread

LIMIT_S = 150
CLOCKS_TIE_NS = 50_000
"""How far the profiler's clock and the host's may be apart."""

Rows = list[dict[str, Any]]


def measure(place: Place) -> None:
    """The same job without and with timing in the Flight Recorder."""
    world = 2 if place.is_rehearsal else torch.cuda.device_count()
    place.say(Figure("ranks", world, "one for each GPU"))
    for timing in (False, True):
        name = "with timing" if timing else "without timing"
        ranks = _job(place, world, timing)
        if ranks is None:
            return
        for figure in _figures(ranks, name, place):
            place.say(figure)
    for figure in cost_figures([rank["costs"] for rank in ranks]):
        place.say(figure)


def _job(place: Place, world: int, timing: bool) -> list[dict[str, Any]] | None:
    """What each rank handed over; None, and a figure that says why, where one did not end well."""
    folder = place.folder / f"timing-{timing}"
    folder.mkdir()
    environment = {
        "TORCH_NCCL_ENABLE_TIMING": str(int(timing)),
        "TORCH_FR_BUFFER_SIZE": "20000",
        "TORCH_NCCL_TRACE_BUFFER_SIZE": "20000",
    }
    jobs = [
        Job(
            "collectives",
            (place.device, folder, rank, world),
            environment
            | {
                "TRACE_HOOKS_RING_DIR": str(folder / f"rings-{rank}"),
                "RANK": str(rank),
                "LOCAL_RANK": str(rank),
                "WORLD_SIZE": str(world),
            },
        )
        for rank in range(world)
    ]
    ended = [job.ended(LIMIT_S) for job in jobs]
    faults = [f"rank {rank}: {one.fault}" for rank, one in enumerate(ended) if one.fault]
    for fault in faults:
        place.say(Figure(f"the job ends, timing {timing}", fault, holds=False))
    return None if faults else [one.found for one in ended]


def _figures(ranks: list[dict[str, Any]], name: str, place: Place) -> list[Figure]:
    missing = [not_in_ring(rank["rows"], rank["ring"]) for rank in ranks]
    lacking = [not_recorded(rank["made"], rank["rows"]) for rank in ranks]
    errors = [rank["errors"] for rank in ranks if rank["errors"]]
    calls = sum(sum(rank["made"].values()) for rank in ranks)
    results = [
        Figure(
            f"{name}: calls without a row",
            sum(map(sum, map(Counter.values, lacking))),
            f"of {calls}",
            holds=not any(lacking),
            note=str(dict(sum(lacking, Counter()))),
        ),
        Figure(
            f"{name}: calls that the write-ahead ring lacks",
            sum(map(len, missing)),
            f"of {calls}",
            holds=not any(missing),
        ),
        Figure(f"{name}: errors of hooks", str(errors or "none"), holds=not errors),
    ]
    results += kernel_figures(name, ranks)
    results += flight_figures(name, ranks, place.is_rehearsal)
    return results


def not_in_ring(rows: Rows, ring: Rows) -> Rows:
    """Rows of calls that were not announced."""
    known = {_key(record) for record in ring}
    return [row for row in rows if row["source"] != "flight_recorder" and _key(row) not in known]


def _key(row: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(row[name] for name in ("group_id", "seq", "op", "peer", "tag"))


def not_recorded(made: dict[str, int], rows: Rows) -> Counter[str]:
    """Calls by operation of which the hooks' wrappers wrote no row."""
    seen = Counter(row["op"] for row in rows if row["source"] != "flight_recorder")
    return Counter(made) - seen


def in_steps(rows: Rows, steps: range, source: str, op: str = "all_reduce") -> Rows:
    """Rows of one operation in order of their call."""
    some = [r for r in rows if r["op"] == op and r["source"] == source and r["step"] in steps]
    return sorted(some, key=lambda row: row["enqueue_ns"])


def kernel_figures(name: str, ranks: list[dict[str, Any]]) -> list[Figure]:
    """Times of rows against those of kernels, paired in order."""
    pairs = []
    for rank in ranks:
        rows, kernels = in_steps(rank["rows"], REDUCES, "wrapper"), rank["reduce_kernels"]
        if len(rows) != len(kernels) or not rows:
            why = f"{len(kernels)} kernels of NCCL were seen for {len(rows)} calls"
            return [Figure(f"{name}: calls against kernels", f"not here: {why}")]
        pairs += list(zip(rows, kernels, strict=True))
    ahead_us = [(begin - row["enqueue_ns"]) / 1e3 for row, (begin, _) in pairs]
    before_us = [(begin - row["start_ns"]) / 1e3 for row, (begin, _) in pairs]
    after_us = [(row["end_ns"] - end) / 1e3 for row, (_, end) in pairs if row["end_ns"] >= 0]
    ok = min(ahead_us) * 1e3 >= -CLOCKS_TIE_NS
    found = [
        Figure(
            f"{name}: enqueue to kernel, least",
            min(ahead_us),
            "us",
            ok,
            f"never after it, but for {CLOCKS_TIE_NS / 1e3:g} us between the clocks; "
            + spread(ahead_us).in_words(),
        ),
        _of(f"{name}: from a row's start to its kernel", before_us, "us"),
    ]
    if after_us:
        found.append(_of(f"{name}: from a kernel's end to its row's", after_us, "us"))
    no_end = len(pairs) - len(after_us)
    return [*found, Figure(f"{name}: waited calls without an end", no_end, holds=no_end == 0)]


def _of(name: str, values: Sequence[float], unit: str) -> Figure:
    found = spread(values)
    return Figure(name, found.median, unit, note=found.in_words(unit))


def flight_figures(name: str, ranks: list[dict[str, Any]], rehearsed: bool) -> list[Figure]:
    """What the Flight Recorder knows, and what the hooks made of it for DDP."""
    entries = [entry for rank in ranks for entry in rank["flight"]]
    ends = sum(entry.get("time_discovered_completed_ns") is not None for entry in entries)
    figures = [
        Figure(f"{name}: Flight Recorder entries", len(entries), note=f"{ends} with an end"),
        *ddp_figures(name, ranks),
    ]
    timed = [entry for entry in entries if entry.get("duration_ms") is not None]
    if rehearsed:
        return [*figures, Figure(f"{name}: durations", "not here: needs a CUDA device")]
    figures.append(Figure(f"{name}: entries with a duration", len(timed), f"of {len(entries)}"))
    if timed:
        figures += duration_figures(name, ranks)
    return figures


def ddp_figures(name: str, ranks: list[dict[str, Any]]) -> list[Figure]:
    """All-reduces of DDP's reducer: those of the Flight Recorder that no wrapper made."""
    expected = missing = with_end = completed = 0
    for rank in ranks:
        steps = range(WARM_UP.start, DDP.stop)
        rows = in_steps(rank["rows"], steps, "flight_recorder")
        first_ns = min((row["enqueue_ns"] for row in rows), default=0)
        entries = _reduces(rank["flight"], since_ns=first_ns - CLOCKS_TIE_NS)
        expected += len(entries)
        missing += abs(len(entries) - len(rows)) if rows else 1
        with_end += sum(row["end_ns"] >= 0 for row in rows)
        completed += sum(row["state"] == "completed" for row in rows)
    return [
        Figure(
            f"{name}: DDP's all-reduces without a row",
            missing,
            f"of {expected}",
            holds=missing == 0 and expected > 0,
        ),
        Figure(f"{name}: DDP's all-reduces seen complete", completed, f"of {expected}"),
        Figure(
            f"{name}: DDP's all-reduces with an end",
            with_end,
            f"of {expected}",
            note="of those that DDP starts, where it or NCCL tells when they end",
        ),
    ]


def _reduces(entries: Rows, since_ns: int) -> Rows:
    some = [e for e in entries if e["profiling_name"].replace("_", "").endswith(":allreduce")]
    return [entry for entry in some if entry["time_created_ns"] >= since_ns]


def duration_figures(name: str, ranks: list[dict[str, Any]]) -> list[Figure]:
    """Durations and ends of the Flight Recorder against kernels, the newest with the newest."""
    errors_us, late_ms = [], []
    for rank in ranks:
        begin_ns = min(row["enqueue_ns"] for row in in_steps(rank["rows"], REDUCES, "wrapper"))
        kernels = rank["reduce_kernels"]
        entries = _reduces(rank["flight"], begin_ns - CLOCKS_TIE_NS)[: len(kernels)]
        for entry, (begin, end) in zip(entries, kernels, strict=False):
            if entry.get("duration_ms") is not None:
                errors_us.append(entry["duration_ms"] * 1e3 - (end - begin) / 1e3)
            if entry.get("time_discovered_completed_ns"):
                late_ms.append((entry["time_discovered_completed_ns"] - end) / 1e6)
    if not errors_us:
        return [Figure(f"{name}: durations against kernels", "not here: no kernel of NCCL seen")]
    results = [_of(f"{name}: Flight Recorder's duration less its kernel's", errors_us, "us")]
    if late_ms:
        results.append(_of(f"{name}: its end after the kernel's", late_ms, "ms"))
    return results


def cost_figures(costs: list[dict[str, list[float]]]) -> list[Figure]:
    """Of all ranks: medians of the rounds, and what the hooks add."""
    bare = [ns for rank in costs for ns in rank["bare"]]
    return [
        _of("all_reduce of 16 bytes, bare, CPU time", bare, "ns"),
        _of("the same again: noise", _added(costs, "bare again"), "ns"),
        _of("the same with hooks: added", _added(costs, "hooked"), "ns"),
        _of("with hooks, without events: added", _added(costs, "hooked, host times"), "ns"),
    ]


def _added(costs: list[dict[str, list[float]]], way: str) -> list[float]:
    return [b - a for rank in costs for a, b in zip(rank["bare"], rank[way], strict=True)]
