"""The operations of `rankscope mfu --operations` as lines for people."""

from __future__ import annotations

from collections.abc import Sequence

from app.views.efficiency.operations import Roofline
from diagnosis.roofline.operations import Operation
from diagnosis.statistics.units import in_ms, steps_text

MOST_PRINTED = 30
_WIDEST = 44
_HEADS = (
    "operation and shapes",
    "dtype",
    "calls",
    "ms",
    "TFLOP/s",
    "GB/s",
    "FLOP/B",
    "bound by",
    "roofline",
    "to save ms",
)
_NUM_TEXTS = 2
"""Columns from the left that are not numbers."""


def operation_lines(found: Roofline) -> list[str]:
    """Times and calls are per step, mean over the ranks."""
    where = "outside of steps" if found.steps is None else steps_text(*found.steps)
    ranks = "1 rank" if found.num_ranks == 1 else f"{found.num_ranks:,} ranks"
    lines = [f"{where}: {in_ms(found.kernel_ms)} of kernels per step, {ranks}{_roofs(found)}"]
    shown = found.operations[:MOST_PRINTED]
    lines += _table([_HEADS, *(_cells(one) for one in shown)])
    left_out = len(found.operations) - len(shown) + found.num_left_out
    if left_out:
        lines.append(f"and {left_out:,} shorter ones")
    sentences = [found.saving, found.peers, *(f"note: {note}" for note in found.notes)]
    return [*lines, "", *(text for text in sentences if text)]


def _roofs(found: Roofline) -> str:
    if found.roofs is None:
        return ", devices of several kinds"
    roofs = found.roofs
    peaks = {name: roofs.peak(name) for name in ("half", "float32")}
    names = {"half": "16 bits", "float32": "float32"}
    known = [f"{peak:g} TFLOP/s at {names[name]}" for name, peak in peaks.items() if peak]
    if roofs.given is not None:
        known = [f"{roofs.given:g} TFLOP/s as given"]
    bandwidth = [f"{roofs.gb_per_s:g} GB/s"] if roofs.gb_per_s else []
    return "".join(f", {text}" for text in [roofs.device, *known, *bandwidth] if text)


def _cells(one: Operation) -> tuple[str, ...]:
    name = f"{one.name.removeprefix('aten::')} {one.shapes}"
    return (
        name if len(name) <= _WIDEST else f"{name[: _WIDEST - 3]}...",
        one.dtype,
        f"{one.calls:,.1f}".removesuffix(".0"),
        f"{one.ms:.3f}",
        _number(one.tflops_per_s),
        _number(one.gb_per_s),
        _number(one.intensity),
        one.bound or "",
        "" if one.roof_share is None else f"{100 * one.roof_share:.0f} %",
        "" if one.lost_ms is None else f"{one.lost_ms:.3f}",
    )


def _number(value: float | None) -> str:
    """Three digits, and those before the point."""
    if value is None:
        return ""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _table(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            cell.ljust(width) if at < _NUM_TEXTS else cell.rjust(width)
            for at, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]
