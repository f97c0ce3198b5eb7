"""What makes the times of a job uneven: its stages, slow ranks, large micro-batches, and the rest.

An operation takes usual (of its stage) x rank x data (its micro-batch, on all stages) x noise.
Shapes: S steps, D replicas, P stages, M micro-batches; chunks of a stage together.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from diagnosis.whatif.operations import Floats
from diagnosis.whatif.schedules.changes import typical
from diagnosis.whatif.schedules.measured import Cell, Measured


@dataclass(frozen=True)
class Factors:
    """Of forwards or of backwards. `usual_P`: s."""

    usual_P: Floats
    rank_DP: Floats
    data_SDM: Floats
    noise_SDPM: Floats


def factors(own: list[list[Floats]], usual_PVM: Floats) -> Factors:
    """`own`: (P, V, M) of each step and replica. Raises ValueError where a stage takes no time."""
    usual_P = usual_PVM[..., 0].sum(axis=1)
    if (usual_P <= 0).any():
        raise ValueError(f"stage {int(usual_P.argmin())} usually takes no time")
    times_SDPM = np.array(own).sum(axis=3) / usual_P[:, None]
    rank_DP = np.median(times_SDPM, axis=(0, 3))
    rank_DP = rank_DP / np.median(rank_DP, axis=0)
    rest_SDPM = times_SDPM / rank_DP[..., None]
    data_SDM = np.median(rest_SDPM, axis=2)
    return Factors(usual_P, rank_DP, data_SDM, rest_SDPM / data_SDM[:, :, None])


def regrouped(job: Measured, times: Callable[[Factors], Floats]) -> Measured:
    """The job with other times: `times` gives (S, replicas, stages, M) from the factors."""
    usual = typical(job)
    forward_SDPM, backward_SDPM = (
        times(factors([[getattr(cell, name) for cell in step] for step in job.steps], usual_PVM))
        for name, usual_PVM in (
            ("forward_PVM", usual.forward_PVM),
            ("backward_PVM", usual.backward_PVM),
        )
    )
    steps = tuple(
        tuple(
            Cell(forward[:, None], backward[:, None])
            for forward, backward in zip(*both, strict=True)
        )
        for both in zip(forward_SDPM, backward_SDPM, strict=True)
    )
    return replace(job, steps=steps)


def even_ranks(of: Factors) -> Floats:
    """No rank is slower than the median of its stage."""
    return of.usual_P[:, None] * of.data_SDM[:, :, None] * of.noise_SDPM


def even_microbatches(of: Factors) -> Floats:
    """All micro-batches are as large as the median."""
    return (of.usual_P * of.rank_DP)[..., None] * of.noise_SDPM


def half_the_stages(of: Factors) -> Floats:
    """Pairs of stages on each of their two devices, which share the micro-batches of a replica."""
    pair_Q = of.usual_P[0::2] + of.usual_P[1::2]
    half = of.data_SDM.shape[2] // 2
    made = []
    for replica in range(len(of.rank_DP)):
        for which, own in ((0, slice(0, half)), (1, slice(half, 2 * half))):
            rank_Q = of.rank_DP[replica, which::2]
            data_SM = of.data_SDM[:, replica, own]
            noise_SQM = of.noise_SDPM[:, replica, which::2, own]
            made.append((pair_Q * rank_Q)[:, None] * data_SM[:, None] * noise_SQM)
    return np.stack(made, axis=1)


def twice_the_stages(of: Factors) -> Floats:
    """Halves of a stage on devices of two replicas, whose micro-batches both run."""
    half_R = np.repeat(of.usual_P / 2, 2)
    made = []
    for one in range(0, len(of.rank_DP), 2):
        rank_R = of.rank_DP[one : one + 2].T.ravel()
        data_SN = of.data_SDM[:, one : one + 2].reshape(len(of.data_SDM), -1)
        both = of.noise_SDPM[:, one : one + 2].swapaxes(1, 2)
        by_device = both.reshape(len(both), len(half_R), -1)
        noise_SRN = np.concatenate([by_device, by_device], axis=2)
        made.append((half_R * rank_R)[:, None] * data_SN[:, None] * noise_SRN)
    return np.stack(made, axis=1)
