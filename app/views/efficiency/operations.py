"""Operations against the roofline of the devices: the same for the page and for `rankscope mfu`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from app.views.ranks.metric_matrix import Steps
from diagnosis.roofline.operations import Operation, operations_of
from diagnosis.roofline.peers import Comparison, slow_kernels
from diagnosis.roofline.roofs import NO_ROOFS, Roofs, roofs_of
from diagnosis.roofline.text import (
    NO_SHAPES,
    NOTHING,
    could_save_text,
    notes_of,
    peers_text,
)
from diagnosis.statistics.units import steps_text
from ingest.run import Run
from ingest.stopping import Stop

MOST_OPERATIONS = 100
MOST_STEPS = 200
OUTSIDE = -1
"""Step of what was recorded outside of all steps."""


@dataclass(frozen=True)
class Asked:
    """Attempt of a run; peak of a device, 1e12 FLOP/s, and bandwidth, 1e9 B/s (None: by the device
    table).
    """

    run: Run
    attempt: int
    peak_tflops: float | None = None
    gb_per_s: float | None = None
    stop: Stop | None = None


@dataclass(frozen=True)
class Roofline:
    """`steps`: first and last with a profile, None where it lies outside of steps; `kernel_ms`: per
    step, mean over ranks; `known_share`: of it with known FLOPs or bytes. `operations`: the
    longest, `num_left_out` more. `roofs`: what the device can do, None where ranks differ.
    """

    steps: Steps | None
    num_steps: int
    num_ranks: int
    kernel_ms: float
    known_share: float
    operations: tuple[Operation, ...]
    num_left_out: int
    roofs: Roofs | None
    comparison: Comparison
    saving: str
    peers: str
    notes: tuple[str, ...]


def roofline_of(asked: Asked, steps: Steps | None) -> Roofline | str:
    """Of some steps, both included (None: the newest that a profiler saw); a sentence where nothing
    can be said.
    """
    rows = asked.run.ask("profiled_steps", attempt=asked.attempt, stop=asked.stop).to_pylist()
    seen = [row["step"] for row in rows]
    if not seen:
        return NOTHING
    chosen = _profiled(seen, steps)
    if chosen is None:
        inside = [step for step in seen if step > OUTSIDE]
        where = f"in {steps_text(inside[0], inside[-1])}" if inside else "outside of all steps"
        return f"Nothing was imported or captured in the steps that were chosen, but {where}."
    given = {"attempt": asked.attempt, "stop": asked.stop}
    window = {"step_min": chosen[0], "step_max": chosen[1]}
    rows = asked.run.ask("operation_kernels", **given, **window).to_pylist()
    if not rows:
        return NOTHING
    roofs = dict.fromkeys((row["rank"] for row in rows), NO_ROOFS)
    roofs |= {
        row["rank"]: roofs_of(row, asked.peak_tflops, asked.gb_per_s)
        for row in asked.run.ask("device_roofs", **given).to_pylist()
    }
    found = operations_of(rows, roofs)
    if not found:
        return NO_SHAPES
    return _roofline(chosen, rows, found, roofs)


def _roofline(
    chosen: Steps, rows: list[dict[str, Any]], found: tuple[Operation, ...], roofs: dict[int, Roofs]
) -> Roofline:
    ranks = {row["rank"] for row in rows}
    kernel_ms = sum(row["total_ms"] / row["num_steps"] for row in rows) / len(ranks)
    known_ms = sum(one.ms for one in found if one.flops or one.num_bytes)
    used = [roofs[rank] for rank in sorted(ranks)]
    comparison = slow_kernels(rows, roofs)
    known_share = min(known_ms / kernel_ms, 1.0) if kernel_ms else 0.0
    return Roofline(
        steps=None if chosen[1] == OUTSIDE else chosen,
        num_steps=max(row["num_steps"] for row in rows),
        num_ranks=len(ranks),
        kernel_ms=kernel_ms,
        known_share=known_share,
        operations=found[:MOST_OPERATIONS],
        num_left_out=max(len(found) - MOST_OPERATIONS, 0),
        roofs=used[0] if all(one == used[0] for one in used) else None,
        comparison=comparison,
        saving=could_save_text(found, kernel_ms),
        peers=peers_text(comparison),
        notes=tuple(notes_of(found, used, known_share)),
    )


def _profiled(seen: Sequence[int], steps: Steps | None) -> Steps | None:
    """First and last of the steps that a profiler saw and that were asked for; what lies outside
    of steps where it saw no other.
    """
    wanted = [step for step in seen if steps is None or steps[0] <= step <= steps[1]]
    chosen = [step for step in wanted if step > OUTSIDE][-MOST_STEPS:] or wanted
    return (chosen[0], chosen[-1]) if chosen else None


def as_json(found: Roofline | str) -> dict[str, Any]:
    """Plain values; a sentence as `reason`."""
    if isinstance(found, str):
        return {"operations": None, "reason": found}
    return asdict(found)
