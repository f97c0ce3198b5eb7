"""Kernels that take longer on one rank than on its peers, for the same work; and slow devices.

The same: one operation on inputs of the same shapes and types, the same kernel at the same place in
the call, as often per step, on devices of the same name; and FLOPs or bytes that follow from the
shapes, so that the values (indices, expert loads) do not decide how much there is to do. Calls
beside communication do not count: while it waits for a late rank it slows the kernels of others.

A device is slow where the median of its kernels' times, each relative to the median over the ranks,
is MIN_EXCESS above that of its peers and beyond their noise. A kernel is slow on a rank where its
median call is, once the speed of each device is divided out, and where nine tenths of its calls
take longer than nine tenths of those of any peer: some kernels run in two modes, and quartiles of
ten calls may show either. Several ranks may be slow, as long as at least MIN_PEERS are not, and
those are more.

The detector slow_worker finds slow ranks in all steps. Known false positive: values that cost more
power lower a device's clock. Known blind spot: what all ranks have in common.

Shape suffixes: K kernels, R ranks.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from diagnosis.roofline.calls import Call, parse_call
from diagnosis.roofline.roofs import Roofs
from diagnosis.roofline.work import UNKNOWN, work_of
from diagnosis.statistics.peers import MIN_PEERS, NOISE_MADS

Row = Mapping[str, Any]
"""Of the saved query operation_kernels."""

MIN_EXCESS = 0.1
"""Healthy devices of one model differ by 8 % on average (Sinha et al., arXiv:2208.11035)."""
FEWEST_CALLS = 8
"""Of a kernel on each rank: deciles of fewer are the shortest and the longest."""
FEWEST_KERNELS = 4
"""With fewer, nothing distinguishes a slow device from a slow kernel."""


@dataclass(frozen=True)
class SlowKernel:
    """One kernel on one rank. `excess`: median / median of the peers - 1. `lost_ms`: per step."""

    rank: int
    operation: str
    shapes: str
    dtype: str
    kernel: str
    calls: float
    median_us: float
    peers_us: float
    excess: float
    lost_ms: float


@dataclass(frozen=True)
class SlowRank:
    """What is slow on one rank: its device, or kernels, the costliest first. `device_excess`: by
    how much its kernels in the middle take longer than those of its peers; None where too few can
    be compared. `lost_ms`: per step, of the kernels, or of all where the device is slow.
    """

    rank: int
    is_device: bool
    device_excess: float | None
    kernels: tuple[SlowKernel, ...]
    num_compared: int
    lost_ms: float


@dataclass(frozen=True)
class Comparison:
    """`num_compared`: kernels that at least MIN_PEERS + 1 ranks ran as often on the same inputs."""

    num_compared: int
    num_ranks: int
    ranks: tuple[SlowRank, ...]


class _Same(NamedTuple):
    """Rows of one kernel that can be compared, of one rank each, and the median over them, us."""

    call: Call
    rows: list[Row]
    middle_us: float


class _Adjusted(NamedTuple):
    """Median and outer deciles of a row, us, as if all devices were equally fast."""

    row: Row
    median_us: float
    low_us: float
    high_us: float


def slow_kernels(rows: Sequence[Row], roofs: Mapping[int, Roofs]) -> Comparison:
    """Ranks that are slow, the costliest first. `roofs`: by rank, for the names of devices."""
    of_device = defaultdict[str, list[Row]](list)
    for row in rows:
        of_device[roofs[row["rank"]].device].append(row)
    num_compared, ranks, slow = 0, set[int](), list[SlowRank]()
    for own in of_device.values():
        same = _comparable(own)
        num_compared += len(same)
        ranks |= {row["rank"] for one in same for row in one.rows}
        slow += _slow_ranks(same)
    slow.sort(key=lambda one: (-one.lost_ms, one.rank))
    return Comparison(num_compared, len(ranks), tuple(slow))


def _comparable(rows: Sequence[Row]) -> list[_Same]:
    """Kernels that enough ranks ran often enough, and all as often as the others."""
    of_kernel = defaultdict[tuple[Any, ...], list[Row]](list)
    for row in rows:
        if row["operation"] is not None:
            of_kernel[row["operation"], row["part"], row["name"]].append(row)
    found = []
    for (operation, *_), own in of_kernel.items():
        per_step = {row["calls"] / row["num_steps"] for row in own}
        fewest = min(row["alone_calls"] for row in own)
        if len(own) <= MIN_PEERS or len(per_step) > 1 or fewest < FEWEST_CALLS:
            continue
        call = parse_call(operation)
        middle_us = float(np.median([row["median_us"] for row in own]))
        if call is not None and work_of(call) != UNKNOWN and middle_us > 0:
            found.append(_Same(call, own, middle_us))
    return found


def _slow_ranks(same: Sequence[_Same]) -> list[SlowRank]:
    speeds = _device_times(same)
    devices = _slow_devices(speeds)
    kernels = defaultdict[int, list[SlowKernel]](list)
    for one in same:
        for slow in _slow_ones(one, speeds):
            kernels[slow.rank].append(slow)
    found = []
    for rank in sorted(devices | kernels.keys()):
        own = sorted(kernels[rank], key=lambda kernel: -kernel.lost_ms)
        is_device = rank in devices
        lost_ms = sum(kernel.lost_ms for kernel in own)
        excess = speeds[rank] - 1 if rank in speeds else None
        num = sum(row["rank"] == rank for one in same for row in one.rows)
        lost_ms = _lost_by_device(same, rank) if is_device else lost_ms
        found.append(SlowRank(rank, is_device, excess, tuple(own), num, lost_ms))
    return found


def _device_times(same: Sequence[_Same]) -> dict[int, float]:
    """By rank how long its kernels take, in the middle, relative to the median over the ranks;
    ranks of which too few can be compared are left out.
    """
    relative = defaultdict[int, list[float]](list)
    for one in same:
        for row in one.rows:
            relative[row["rank"]].append(row["median_us"] / one.middle_us)
    return {
        rank: float(np.median(values))
        for rank, values in relative.items()
        if len(values) >= FEWEST_KERNELS
    }


def _slow_devices(times: Mapping[int, float]) -> set[int]:
    ordered = sorted(times, key=lambda rank: -times[rank])
    for num in _numbers_of_slow(len(ordered)):
        peers = np.array([times[rank] for rank in ordered[num:]])
        if times[ordered[num - 1]] >= _least(peers):
            return set(ordered[:num])
    return set()


def _numbers_of_slow(num: int) -> range:
    """How many of `num` may be slow, the most first."""
    return range(min((num - 1) // 2, num - MIN_PEERS), 0, -1)


def _least(peers: np.ndarray[tuple[int], np.dtype[np.float64]]) -> float:
    """From which value on one is slow, by those of its peers."""
    middle = float(np.median(peers))
    noise = NOISE_MADS * float(np.median(np.abs(peers - middle)))
    return middle + max(MIN_EXCESS * middle, 2 * noise)


def _slow_ones(same: _Same, speeds: Mapping[int, float]) -> list[SlowKernel]:
    """Ranks on which the kernel is far above the others, once devices are equally fast."""
    adjusted = []
    for row in same.rows:
        speed = speeds.get(row["rank"], 1.0)
        values = (row[name] / speed for name in ("median_us", "low_us", "high_us"))
        adjusted.append(_Adjusted(row, *values))
    adjusted.sort(key=lambda one: -one.median_us)
    for num in _numbers_of_slow(len(adjusted)):
        slow, peers = adjusted[:num], adjusted[num:]
        if _is_apart(slow, peers):
            return [_slow_kernel(same.call, one.row, [peer.row for peer in peers]) for one in slow]
    return []


def _is_apart(slow: Sequence[_Adjusted], peers: Sequence[_Adjusted]) -> bool:
    least = _least(np.array([one.median_us for one in peers]))
    highest = max(one.high_us for one in peers)
    return all(one.median_us >= least and one.low_us > highest for one in slow)


def _slow_kernel(call: Call, row: Row, peers: Sequence[Row]) -> SlowKernel:
    peers_us = float(np.median([peer["median_us"] for peer in peers]))
    calls = row["calls"] / row["num_steps"]
    return SlowKernel(
        rank=row["rank"],
        operation=call.op,
        shapes=call.shapes_text,
        dtype=call.dtype,
        kernel=row["name"],
        calls=calls,
        median_us=row["median_us"],
        peers_us=peers_us,
        excess=row["median_us"] / peers_us - 1,
        lost_ms=calls * (row["median_us"] - peers_us) / 1e3,
    )


def _lost_by_device(same: Sequence[_Same], rank: int) -> float:
    """What the compared kernels of a rank take longer than in the middle, ms per step."""
    lost_ms = 0.0
    for one in same:
        for row in one.rows:
            if row["rank"] == rank:
                per_call_ms = (row["median_us"] - one.middle_us) / 1e3
                lost_ms += row["calls"] / row["num_steps"] * per_call_ms
    return max(lost_ms, 0.0)
