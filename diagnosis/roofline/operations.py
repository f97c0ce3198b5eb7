"""Operations of some steps against the roofline of the devices.

The least time of a call is that of its FLOPs at the peak of its data type, or of its bytes at the
bandwidth of the memory, whichever is longer (Williams et al., CACM 52(4), 2009). Kernels of
communication are not among them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from diagnosis.roofline.calls import Call, parse_call
from diagnosis.roofline.roofs import Roofs, precision_of
from diagnosis.roofline.work import work_of

Row = Mapping[str, Any]
"""Of the saved query operation_kernels."""

COMPUTE, MEMORY = "compute", "memory"


@dataclass(frozen=True)
class Operation:
    """One operation on inputs of one shape and type. `calls`, `ms`: per step, mean over the ranks.
    `flops`, `num_bytes`: of one call; `intensity`: FLOPs per byte. `bound`: what sets its least
    time; None unknown. `roof_share`: least time / time; more than 1 where values stay in caches.
    `lost_ms`: per step beyond the least time. `kernels`: names, the longest first.
    """

    name: str
    shapes: str
    dtype: str
    precision: str
    calls: float
    ms: float
    call_us: float
    flops: float | None
    num_bytes: float | None
    tflops_per_s: float | None
    gb_per_s: float | None
    intensity: float | None
    bound: str | None
    peak_tflops: float | None
    roof_share: float | None
    lost_ms: float | None
    kernels: tuple[str, ...]


@dataclass(frozen=True)
class _Own:
    """An operation on one rank, over all of its steps."""

    calls: int
    total_us: float
    num_steps: int
    roofs: Roofs


def operations_of(rows: Sequence[Row], roofs: Mapping[int, Roofs]) -> tuple[Operation, ...]:
    """All operations whose shapes are known, the longest first. `roofs`: by rank."""
    by_operation = defaultdict[str, list[Row]](list)
    for row in rows:
        if row["operation"] is not None:
            by_operation[row["operation"]].append(row)
    num_ranks = len({row["rank"] for row in rows})
    found = []
    for text, own in by_operation.items():
        call = parse_call(text)
        if call is not None:
            found.append(_operation(call, own, roofs, num_ranks))
    return tuple(sorted(found, key=lambda one: -one.ms))


def _operation(
    call: Call, rows: Sequence[Row], roofs: Mapping[int, Roofs], num_ranks: int
) -> Operation:
    kernels = _kernels(rows)
    owned = _by_rank(rows, roofs)
    calls = sum(own.calls for own in owned)
    total_us = sum(own.total_us for own in owned)
    call_us = total_us / max(calls, 1)
    flops, num_bytes = work_of(call)
    precision = precision_of(call.dtype, kernels)
    if precision == "float32" and flops and _beats(owned, flops, "float32"):
        precision = "tf32"
    least = [_least_us(flops, num_bytes, own.roofs, precision) for own in owned]
    known = [one for one in least if one is not None]
    bounds = {bound for _, bound in known}
    share = lost_ms = None
    if len(known) == len(owned) and total_us > 0:
        least_us = [us for us, _ in known]
        share = sum(own.calls * us for own, us in zip(owned, least_us, strict=True)) / total_us
        lost_ms = sum(
            max(own.total_us - own.calls * us, 0.0) / own.num_steps
            for own, us in zip(owned, least_us, strict=True)
        ) / (1e3 * num_ranks)
    peaks = {own.roofs.peak(precision) for own in owned} if flops else set()
    return Operation(
        name=call.op,
        shapes=call.shapes_text,
        dtype=call.dtype,
        precision=precision,
        calls=sum(own.calls / own.num_steps for own in owned) / num_ranks,
        ms=sum(own.total_us / own.num_steps for own in owned) / (1e3 * num_ranks),
        call_us=call_us,
        flops=flops,
        num_bytes=num_bytes,
        tflops_per_s=flops / call_us / 1e6 if flops and call_us else None,
        gb_per_s=num_bytes / call_us / 1e3 if num_bytes and call_us else None,
        intensity=flops / num_bytes if flops and num_bytes else None,
        bound=bounds.pop() if share is not None and len(bounds) == 1 else None,
        peak_tflops=peaks.pop() if len(peaks) == 1 else None,
        roof_share=share,
        lost_ms=lost_ms,
        kernels=kernels,
    )


def _kernels(rows: Iterable[Row]) -> tuple[str, ...]:
    total = defaultdict[str, float](float)
    for row in rows:
        total[row["name"]] += row["total_ms"]
    return tuple(sorted(total, key=lambda name: -total[name]))


def _by_rank(rows: Iterable[Row], roofs: Mapping[int, Roofs]) -> list[_Own]:
    of_rank = defaultdict[int, list[Row]](list)
    for row in rows:
        of_rank[row["rank"]].append(row)
    return [
        _Own(
            sum(row["calls"] for row in own if row["part"] == 0),
            1e3 * sum(row["total_ms"] for row in own),
            own[0]["num_steps"],
            roofs[rank],
        )
        for rank, own in of_rank.items()
    ]


def _beats(owned: Iterable[_Own], flops: float, precision: str) -> bool:
    """Whether it was faster than this precision permits on any rank, so that it had another."""
    return any(
        peak is not None and flops * own.calls / max(own.total_us, 1e-9) > peak * 1e6
        for own in owned
        if (peak := own.roofs.peak(precision)) is not None and own.roofs.given is None
    )


def _least_us(
    flops: float | None, num_bytes: float | None, roofs: Roofs, precision: str
) -> tuple[float, str] | None:
    """Least time of a call and what sets it; None where a roof that applies is unknown."""
    bandwidth = roofs.gb_per_s
    by_bytes = num_bytes / bandwidth / 1e3 if num_bytes and bandwidth else None
    if not flops:
        return None if by_bytes is None else (by_bytes, MEMORY)
    peak = roofs.peak(precision)
    if peak is None or by_bytes is None:
        return None
    by_flops = flops / peak / 1e6
    return (by_flops, COMPUTE) if by_flops >= by_bytes else (by_bytes, MEMORY)
