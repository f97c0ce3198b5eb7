"""Changes to a measured job before its schedule is predicted. Shapes: see measured.py."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from diagnosis.whatif.operations import Floats
from diagnosis.whatif.schedules.measured import Cell, Measured

MOST_MICROBATCHES, MOST_CHUNKS, MOST_OPERATIONS = 4_096, 16, 16_384
"""The last: forwards of one replica, over its stages and chunks."""

MOST_MEMORY = 1e15
"""Bytes of a device."""

MOST_SPEED, MOST_HANDOVER_S = 100.0, 3_600.0


@dataclass(frozen=True)
class Changes:
    """`microbatches`: into which the same tokens are divided. `chunks`: of a stage, for schedules
    that have several. `split`: shares of the layers by stage, in any unit; empty: as measured.
    `most_held`: micro-batches that a device may hold at once; `memory_limit`: bytes that it may
    have allocated. `has_stragglers`: False gives all
    ranks, micro-batches and steps of a stage the median time. Where forwards and backwards have
    devices of their own: `forward_speed`, how fast those of forwards are, 1 as fast as measured;
    `handover_s`, how long the activations of a micro-batch take from the one to the other.

    Raises ValueError, one sentence, for values that make no job.
    """

    microbatches: int | None = None
    chunks: int | None = None
    split: tuple[float, ...] = ()
    most_held: int | None = None
    has_stragglers: bool = True
    memory_limit: float | None = None
    forward_speed: float = 1.0
    handover_s: float = 0.0

    def __post_init__(self) -> None:
        _check("micro-batches", self.microbatches, MOST_MICROBATCHES)
        _check("chunks", self.chunks, MOST_CHUNKS)
        _check("micro-batches held at most", self.most_held, MOST_MICROBATCHES)
        if self.memory_limit is not None and not 0 < self.memory_limit < MOST_MEMORY:
            raise ValueError(
                f"a memory limit of {self.memory_limit / 1e9:g} GB; give a number above 0 and "
                f"below {MOST_MEMORY / 1e9:,.0f}"
            )
        if not 1 / MOST_SPEED <= self.forward_speed <= MOST_SPEED:
            raise ValueError(
                f"the speed of the devices of forwards is {self.forward_speed:g}; give a number "
                f"from {1 / MOST_SPEED:g} to {MOST_SPEED:g}, 1 for as fast as measured"
            )
        if not 0 <= self.handover_s <= MOST_HANDOVER_S:
            raise ValueError(
                f"handing over activations takes {1e3 * self.handover_s:g} ms; give a number from "
                f"0 to {1e3 * MOST_HANDOVER_S:,.0f}"
            )
        for share in self.split:
            if not 0 < share < 1e6:
                raise ValueError(
                    f"the share of a stage is {share:g}; give a number above 0 and below 1,000,000"
                )


def _check(what: str, value: int | None, most: int) -> None:
    if value is not None and not 1 <= value <= most:
        raise ValueError(f"{what}: {value}; give a whole number from 1 to {most:,}")


AS_MEASURED = Changes()


def changed(measured: Measured, changes: Changes) -> Measured:
    """The job with its changes; raises ValueError where they do not fit its stages."""
    p, v, m = measured.sizes
    if changes.split and len(changes.split) != p:
        number = len(changes.split)
        shares = "1 share of stages is" if number == 1 else f"{number} shares of stages are"
        raise ValueError(f"{shares} given, and the job has {p} stage{'' if p == 1 else 's'}")
    many = changes.microbatches or m
    if p * (changes.chunks or v) * many > MOST_OPERATIONS:
        raise ValueError(
            f"{many:,} micro-batches on {p} stages are more than can be replayed; give at most "
            f"{MOST_OPERATIONS // (p * (changes.chunks or v)):,}"
        )
    steps = measured.steps
    if not changes.has_stragglers:
        steps = ((typical(measured),),)
    if changes.split:
        shares_P = np.array(changes.split) / sum(changes.split)
        usual = typical(measured)
        idle = [own.sum(axis=(1, 2)) <= 0 for own in (usual.forward_PVM, usual.backward_PVM)]
        if np.logical_or(*idle).any():
            stage = int(np.flatnonzero(np.logical_or(*idle))[0])
            raise ValueError(f"stage {stage} usually takes no time, so it has no share to change")
        forward_P, backward_P = (
            shares_P * one_PV.sum() / one_PV.sum(axis=1)
            for one_PV in (usual.forward_PVM[..., 0], usual.backward_PVM[..., 0])
        )
        steps = tuple(
            tuple(
                Cell(
                    cell.forward_PVM * forward_P[:, None, None],
                    cell.backward_PVM * backward_P[:, None, None],
                )
                for cell in step
            )
            for step in steps
        )
    if many != m:
        part_MN = _parts(m, many)
        steps = _each(steps, lambda own_PVM: own_PVM @ part_MN)
    smaller = m / many
    return replace(
        measured,
        steps=steps,
        forward_transfer_P=measured.forward_transfer_P * smaller,
        backward_transfer_P=measured.backward_transfer_P * smaller,
    )


def assumed(measured: Measured, changes: Changes) -> tuple[str, ...]:
    """What the changes take for granted."""
    said = []
    if changes.microbatches not in (None, measured.sizes[2]):
        said.append("A micro-batch takes time in proportion to its size, and so does its transfer.")
    if changes.split:
        said.append(
            "A stage usually takes time in proportion to its share of the layers; a rank or "
            "micro-batch that takes longer than usual for its stage takes as many times as long."
        )
    if not changes.has_stragglers:
        said.append(
            "All micro-batches, steps and replicas of a stage take its median time; stages differ "
            "as they do."
        )
    return tuple(said)


def typical(measured: Measured) -> Cell:
    """Medians of each stage and chunk over micro-batches, steps and replicas."""
    cells = [cell for step in measured.steps for cell in step]

    def even(own: list[Floats]) -> Floats:
        all_CPVM = np.stack(own)
        middle_PV = np.median(all_CPVM, axis=(0, 3))
        return np.repeat(middle_PV[..., None], all_CPVM.shape[3], axis=2)

    return Cell(
        even([cell.forward_PVM for cell in cells]), even([cell.backward_PVM for cell in cells])
    )


def _each(
    steps: tuple[tuple[Cell, ...], ...], change: Callable[[Floats], Floats]
) -> tuple[tuple[Cell, ...], ...]:
    return tuple(
        tuple(Cell(change(cell.forward_PVM), change(cell.backward_PVM)) for cell in step)
        for step in steps
    )


def _parts(m: int, n: int) -> Floats:
    """(M, N): which part of each old micro-batch each new one takes, in their order."""
    edges_M, edges_N = np.arange(m + 1) / m, np.arange(n + 1) / n
    begin = np.maximum(edges_M[:-1, None], edges_N[None, :-1])
    end = np.minimum(edges_M[1:, None], edges_N[None, 1:])
    part_MN: Floats = np.maximum(end - begin, 0.0) * m
    return part_MN
