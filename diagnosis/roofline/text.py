"""What there is to know about the operations of a run, in sentences."""

from __future__ import annotations

from collections.abc import Sequence

from diagnosis.roofline.operations import MEMORY, Operation
from diagnosis.roofline.peers import FEWEST_CALLS, MIN_EXCESS, Comparison, SlowRank
from diagnosis.roofline.roofs import Roofs
from diagnosis.statistics.peers import MIN_PEERS

NO_SHAPES = (
    "Kernels were recorded, but not the shapes that their operations had: profile with"
    " record_shapes=True, and import the profiler's files."
)
NOTHING = (
    "No profiler recorded kernels or operators. Import files of torch.profiler that were recorded"
    " with record_shapes=True."
)
_MOST_NAMED = 2
_ROUNDING = 0.005
_IMPOSSIBLE = 1.05
"""Share of the peak that clocks above those of the data sheet may reach."""


def could_save_text(operations: Sequence[Operation], total_ms: float) -> str:
    """Which operations would save most at their rooflines; empty where none is known."""
    known = sorted(
        (one for one in operations if one.lost_ms), key=lambda one: -(one.lost_ms or 0.0)
    )
    if not known or total_ms <= 0:
        return ""
    named = ", ".join(
        f"{_short(one.name)} {one.shapes} {one.lost_ms:.2f} ms ({100 * (one.roof_share or 0):.0f} %"
        " of its roofline)"
        for one in known[:_MOST_NAMED]
    )
    lost_ms = sum(one.lost_ms or 0.0 for one in known)
    return (
        f"At their rooflines, operations would take {lost_ms:.2f} ms less of the"
        f" {total_ms:.2f} ms of kernels per step: above all {named}."
    )


def peers_text(comparison: Comparison) -> str:
    """Which ranks have slow kernels, or what was compared."""
    if not comparison.num_compared:
        return (
            "No kernel can be compared between ranks: that takes"
            f" {MIN_PEERS + 1} ranks which ran it as often, {FEWEST_CALLS} times or more, on inputs"
            " of the same known shapes."
        )
    kernels = "1 kernel" if comparison.num_compared == 1 else f"{comparison.num_compared:,} kernels"
    compared = f"{kernels} on {comparison.num_ranks:,} ranks"
    if not comparison.ranks:
        return (
            f"No rank runs a kernel slower than its peers, by {100 * MIN_EXCESS:.0f} % and beyond"
            f" their noise: {compared} compared."
        )
    return " ".join(_slow_rank_text(rank) for rank in comparison.ranks) + f" {compared} compared."


def _slow_rank_text(rank: SlowRank) -> str:
    told = []
    if rank.is_device:
        told.append(
            f"Rank {rank.rank}: its device is slow, the middle of its {rank.num_compared} compared"
            f" kernels takes {100 * (rank.device_excess or 0):.0f} % more than on its peers; that"
            f" costs {rank.lost_ms:.2f} ms a step."
        )
    if rank.kernels:
        first = rank.kernels[0]
        others = "" if len(rank.kernels) == 1 else f", and {len(rank.kernels) - 1} more"
        cost_ms = sum(kernel.lost_ms for kernel in rank.kernels)
        unsure = (
            ""
            if rank.device_excess is not None
            else " Too few kernels compare to tell whether it is its device."
        )
        told.append(
            f"Rank {rank.rank}: {_short(first.operation)} {first.shapes} takes"
            f" {_us(first.median_us)}, {100 * first.excess:.0f} % more than the"
            f" {_us(first.peers_us)} of its peers{others}; that costs {cost_ms:.2f} ms a step."
            f"{unsure}"
        )
    return " ".join(told)


def notes_of(
    operations: Sequence[Operation], roofs: Sequence[Roofs], known_share: float
) -> list[str]:
    """What limits the table: unknown peaks, unknown work, what cannot be."""
    notes = []
    devices = sorted({one.device or "of unknown name" for one in roofs})
    if any(one.gb_per_s is None for one in roofs):
        notes.append(
            f"The bandwidth of the device memory is not known (device {', '.join(devices)}): give"
            " it with --bandwidth, in 1e9 B/s."
        )
    unknown = sorted({one.dtype or "unknown type" for one in operations if _lacks_peak(one, roofs)})
    if unknown:
        notes.append(
            f"The peak for {', '.join(unknown)} is not known (device {', '.join(devices)}): give it"
            " with --peak-tflops."
        )
    if known_share < 1 - _ROUNDING:
        notes.append(
            f"FLOPs or bytes are known of {100 * known_share:.0f} % of the time of kernels; of the"
            " rest shapes were not recorded, or do not say what there is to do."
        )
    if any(one.bound == MEMORY and (one.roof_share or 0) > 1 for one in operations):
        notes.append(
            "More than 100 % of a roofline of memory: values stay in caches, are repeated ones that"
            " exist once, or the bandwidth is another."
        )
    if any(_too_fast(one) for one in operations):
        notes.append(
            "Operations faster than the peak: the peak is not that of this device or data type, or"
            " their times are only those of launching them."
        )
    return notes


def _lacks_peak(one: Operation, roofs: Sequence[Roofs]) -> bool:
    return bool(one.flops) and any(device.peak(one.precision) is None for device in roofs)


def _too_fast(one: Operation) -> bool:
    peak, speed = one.peak_tflops, one.tflops_per_s
    return peak is not None and speed is not None and speed > _IMPOSSIBLE * peak


def _us(value: float) -> str:
    return f"{value:,.{0 if value >= 100 else 1}f} \u00b5s"


def _short(name: str) -> str:
    return name.removeprefix("aten::")
