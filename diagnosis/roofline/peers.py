"""Kernels that take longer on one rank than on its peers, for the same work.

The same: one operation on inputs of the same shapes and types, the same kernel at the same place in
the call, as often per step, on devices of the same name; and FLOPs or bytes that follow from the
shapes, so that the values (indices, expert loads) do not decide how much there is to do. A rank is
named where a kernel's median is MIN_EXCESS above that of its peers and beyond their noise, and
three quarters of its calls take longer than three quarters of those of any peer. Several ranks
may be slow, as long as at least MIN_PEERS are not, and those are more.

Where nearly all kernels of a rank are slow it is its device; the detector slow_worker finds such
ranks in all steps. Known false positive: values that cost more power lower a device's clock. Known
blind spot: what all ranks have in common.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

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
"""Of a kernel on each rank: quartiles of fewer are single calls."""
NEARLY_ALL = 0.8
"""Share of a rank's comparable kernel time that is slow: it is its device, not a kernel."""


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
    """What is slow on one rank, the costliest kernels first. `slow_share`: of the time of its
    kernels that could be compared.
    """

    rank: int
    kernels: tuple[SlowKernel, ...]
    num_compared: int
    slow_share: float
    lost_ms: float

    @property
    def is_device(self) -> bool:
        """Whether nearly all that could be compared is slow, so that no kernel is to blame."""
        return self.slow_share >= NEARLY_ALL and self.num_compared > 1


@dataclass(frozen=True)
class Comparison:
    """`num_compared`: kernels that at least MIN_PEERS + 1 ranks ran as often on the same inputs."""

    num_compared: int
    num_ranks: int
    ranks: tuple[SlowRank, ...]


def slow_kernels(rows: Sequence[Row], roofs: Mapping[int, Roofs]) -> Comparison:
    """Ranks with slow kernels, the costliest first. `roofs`: by rank, for the names of devices."""
    same = defaultdict[tuple[Any, ...], list[Row]](list)
    for row in rows:
        if row["operation"] is not None:
            device = roofs[row["rank"]].device
            same[row["operation"], row["part"], row["name"], device].append(row)
    slow: list[SlowKernel] = []
    compared = defaultdict[int, list[float]](list)  # ms of each comparable kernel, by rank
    num_compared = 0
    for (operation, *_), own in same.items():
        call = _known(operation) if _are_comparable(own) else None
        if call is None:
            continue
        num_compared += 1
        for row in own:
            compared[row["rank"]].append(row["total_ms"] / row["num_steps"])
        slow += _slow_ones(call, own)
    return Comparison(num_compared, len(compared), _by_rank(slow, compared))


def _known(operation: str) -> Call | None:
    """The call, where its work follows from the shapes."""
    call = parse_call(operation)
    return None if call is None or work_of(call) == UNKNOWN else call


def _are_comparable(rows: Sequence[Row]) -> bool:
    """Whether enough ranks ran it often enough, and all as often as the others."""
    per_step = {row["calls"] / row["num_steps"] for row in rows}
    return (
        len(rows) > MIN_PEERS
        and len(per_step) == 1
        and min(row["calls"] for row in rows) >= FEWEST_CALLS
    )


def _slow_ones(call: Call, rows: Sequence[Row]) -> list[SlowKernel]:
    """Ranks far above the others: the slowest are set aside as long as a gap parts them."""
    ordered = sorted(rows, key=lambda row: -row["median_us"])
    most = (len(ordered) - 1) // 2
    for num in range(min(most, len(ordered) - MIN_PEERS), 0, -1):
        slow, peers = ordered[:num], ordered[num:]
        if _is_apart(slow, peers):
            return [_slow_kernel(call, row, peers) for row in slow]
    return []


def _is_apart(slow: Sequence[Row], peers: Sequence[Row]) -> bool:
    medians = np.array([row["median_us"] for row in peers])
    middle = float(np.median(medians))
    noise = NOISE_MADS * float(np.median(np.abs(medians - middle)))
    least = middle + max(MIN_EXCESS * middle, 2 * noise)
    highest = max(row["high_us"] for row in peers)
    return middle > 0 and all(row["median_us"] >= least and row["low_us"] > highest for row in slow)


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


def _by_rank(
    slow: Sequence[SlowKernel], compared: Mapping[int, Sequence[float]]
) -> tuple[SlowRank, ...]:
    of_rank = defaultdict[int, list[SlowKernel]](list)
    for kernel in slow:
        of_rank[kernel.rank].append(kernel)
    ranks = []
    for rank, own in of_rank.items():
        own_ms = sum(kernel.calls * kernel.median_us for kernel in own) / 1e3
        ranks.append(
            SlowRank(
                rank,
                tuple(sorted(own, key=lambda kernel: -kernel.lost_ms)),
                len(compared[rank]),
                own_ms / max(sum(compared[rank]), 1e-9),
                sum(kernel.lost_ms for kernel in own),
            )
        )
    return tuple(sorted(ranks, key=lambda one: (-one.lost_ms, one.rank)))
