"""From the peak of the devices down to the measured MFU: what their time went to instead.

All times are those of ranks x steps, so the parts and the MFU add up to 100 %. MFU is the model's
FLOPs divided by what all devices could do at peak in that time (PaLM, arXiv:2204.02311). Where the
FLOPs or the peak are unknown, the parts are shares of the time and there is no MFU.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from diagnosis.mfu.parts import COMPUTE, KERNELS, PARTS
from diagnosis.mfu.step_times import StepTimes


@dataclass(frozen=True)
class Bar:
    """One part. `share`: of the time of all devices, 0 to 1; `ms`: per step, mean over the ranks.
    `worst_step`: in which it took longest.
    """

    name: str
    title: str
    meaning: str
    share: float
    ms: float
    worst_step: int


@dataclass(frozen=True)
class Waterfall:
    """`mfu`: None where unknown, `why_no_mfu` says why. `notes`: what else to know."""

    first_step: int
    last_step: int
    num_steps: int
    step_ms: float
    mfu: float | None
    why_no_mfu: str
    tflop_per_step: float | None
    peak_tflops: float | None
    num_ranks: int
    world_size: int
    bars: tuple[Bar, ...]
    notes: tuple[str, ...]

    @property
    def total(self) -> float:
        """Of all bars and the MFU: 1 where nothing is counted twice or missing."""
        return sum(bar.share for bar in self.bars) + (self.mfu or 0.0)


TOO_MUCH = (
    "The model's FLOPs would take longer at this peak than the devices computed: the FLOPs or the"
    " peak are wrong, or not all compute was recorded."
)


def waterfall(times: StepTimes) -> Waterfall | None:
    """Of these steps together; None where there are none."""
    if not times.step_S.size:
        return None
    total_ms = float(times.step_ms_S.sum())
    mfu, why = None, times.why_no_mfu
    if not why:
        mfu = float(times.ideal_ms_S.sum()) / total_ms
        if mfu > float(times.of(COMPUTE).sum()) / total_ms:
            mfu, why = None, TOO_MUCH
    return Waterfall(
        int(times.step_S[0]),
        int(times.step_S[-1]),
        times.step_S.size,
        total_ms / times.step_S.size,
        mfu,
        why,
        _known_mean(times.tflop_S),
        _known_mean(times.peak_S),
        int(times.ranks_S.max()),
        int(times.world_S.max()),
        _bars(times, total_ms, mfu),
        tuple(_notes(times)),
    )


def _bars(times: StepTimes, total_ms: float, mfu: float | None) -> tuple[Bar, ...]:
    bars = []
    for part in PARTS:
        ms_S = times.of(part.name)
        if not ms_S.any():
            continue
        share = float(ms_S.sum()) / total_ms
        shown = part
        if part.name == COMPUTE and mfu is not None:
            share, shown = share - mfu, KERNELS
        bars.append(
            Bar(
                part.name,
                shown.title,
                shown.meaning,
                share,
                share * total_ms / times.step_S.size,
                int(times.step_S[ms_S.argmax()]),
            )
        )
    return tuple(bars)


def _known_mean(values_S: np.ndarray[tuple[int], np.dtype[np.float64]]) -> float | None:
    return float(values_S.mean()) if np.isfinite(values_S).all() else None


def _notes(times: StepTimes) -> list[str]:
    notes = []
    if times.hides_waiting:
        notes.append(
            "In some of these steps it is not known how long ranks wait for each other: "
            "clocks are not aligned, or collectives were not recorded by all members. It is in the "
            "bars of communication, or of compute where one timer holds both."
        )
    if (times.ranks_S < times.world_S).any():
        notes.append(
            f"{int(times.ranks_S.min()):,} of {int(times.world_S.max()):,} ranks are recorded: the "
            "shares are theirs."
        )
    return notes
