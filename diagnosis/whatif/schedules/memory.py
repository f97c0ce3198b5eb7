"""How much memory micro-batches take on the devices of a pipeline."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from diagnosis.whatif.operations import Floats
from diagnosis.whatif.schedules.plan import Op, Plan
from diagnosis.whatif.schedules.replay import Replayed


@dataclass(frozen=True)
class StageMemory:
    """Of the fullest rank of each stage. `kept_P`: bytes that it holds of a micro-batch between its
    forward and its backward. `peak_P`: the most that its device had allocated; NaN unknown.
    """

    kept_P: Floats
    peak_P: Floats


def stage_memory(rows: Sequence[Mapping[str, Any]], stages: int) -> StageMemory | None:
    """From the rows of the query stage_memory; None where a stage has none."""
    kept_P, peak_P = np.full(stages, np.nan), np.full(stages, np.nan)
    for row in rows:
        stage = row["stage"]
        if stage is not None and 0 <= stage < stages:
            kept_P[stage] = np.fmax(kept_P[stage], row["kept_bytes"])
            if row["peak_bytes"] is not None:
                peak_P[stage] = np.fmax(peak_P[stage], row["peak_bytes"])
    return None if np.isnan(kept_P).any() or kept_P.min() <= 0 else StageMemory(kept_P, peak_P)


def held_by(order: tuple[tuple[Op, ...], ...], chunks: int) -> Floats:
    """(P,): most micro-batches, in whole stages, that devices with these operations hold."""
    plan = Plan(order, tuple(range(len(order))) * chunks, chunks)
    return np.array(Replayed(plan, {}, {}).held()) / chunks


def fitting(memory: StageMemory, held_P: Floats, share: float, limit: float) -> tuple[int, ...]:
    """How many micro-batches of `share` of the measured size each device can hold within `limit`
    bytes. `held_P`: as measured. Raises ValueError, one sentence, where not one fits.
    """
    if np.isnan(memory.peak_P).any():
        raise ValueError("how much memory devices had allocated at most was not recorded")
    rest_P = memory.peak_P - held_P * memory.kept_P
    fit_P = np.floor((limit - rest_P) / (memory.kept_P * share))
    if fit_P.min() < 1:
        stage = int(fit_P.argmin())
        need = rest_P[stage] + memory.kept_P[stage] * share
        raise ValueError(
            f"stage {stage} needs {need / 1e9:.3g} GB for one micro-batch, and "
            f"{limit / 1e9:.3g} GB may be taken"
        )
    return tuple(int(min(fit, 1e6)) for fit in fit_P)
