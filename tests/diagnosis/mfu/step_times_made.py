"""Step times made by hand."""

from __future__ import annotations

import numpy as np

from diagnosis.mfu.parts import LONGEST, NAMES
from diagnosis.mfu.step_times import StepTimes


def times_of(
    num_steps: int = 20,
    first_step: int = 0,
    tflop: float = np.nan,
    peak: float = np.nan,
    **parts: object,
) -> StepTimes:
    """Steps of two ranks whose parts take so many ms: a number, or one for each step."""
    part_PS = np.zeros((len(NAMES), num_steps))
    for name, ms in parts.items():
        part_PS[NAMES.index(name)] = ms
    return StepTimes(
        step_S=first_step + np.arange(num_steps),
        part_PS=part_PS,
        step_ms_S=part_PS.sum(axis=0),
        tflop_S=np.full(num_steps, tflop),
        peak_S=np.full(num_steps, peak),
        world_S=np.full(num_steps, 2),
        ranks_S=np.full(num_steps, 2),
        known_S=np.full(num_steps, True),
        longest_LS=np.array([part_PS[NAMES.index(name)] for name in LONGEST]),
        gc_rank_S=np.full(num_steps, -1),
    )
