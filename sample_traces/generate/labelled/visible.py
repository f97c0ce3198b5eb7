"""Whether a fault in the tables of the hooks exceeds what the job's ranks do by themselves."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from sample_traces.generate.durations import Float
from sample_traces.generate.faults import SyntheticFault
from sample_traces.generate.job import SyntheticJob
from sample_traces.generate.simulation.draw import draw

CLEAR = 5.0
"""Standard deviations of healthy ranks by which a fault must show."""
LOST = "ranks of the healthy job differ as much by themselves"


def lost_in_noise(job: SyntheticJob, fault: SyntheticFault) -> str:
    """Why the noise of the job hides the fault; empty where it does not.

    Only faults that change what ranks do by themselves; those of transfers do not.
    """
    hit_S = np.array([fault.hits(step) for step in range(job.steps_completed)])
    if not hit_S.any():
        return ""
    healthy = _own_times(replace(job, faults=()))
    faulty = _own_times(replace(job, faults=(fault,)))
    sizes = []
    for times_SR, with_SR in zip(healthy, faulty, strict=True):
        size = float((with_SR - times_SR)[hit_S].mean(axis=0).max())
        sizes.append((size, size >= CLEAR * _noise(times_SR, int(hit_S.sum()))))
    changes = [shows for size, shows in sizes if size > 0]
    return LOST if changes and not any(changes) else ""


def _own_times(job: SyntheticJob) -> tuple[Float, ...]:
    """(S, R): compute, data wait, and host work between operations."""
    d = draw(job)
    compute = (d.forward_MSPDT + d.backward_MSPDT + d.gc_MSPDT).sum(axis=0)
    rest = d.skew_SPDT + d.checkpoint_SPDT
    return tuple(x.reshape(x.shape[0], -1) for x in (compute, d.data_SPDT, rest))


def _noise(times_SR: Float, length: int) -> float:
    """Standard deviation of what a rank is apart from the others on average of so many steps."""
    apart_SR = times_SR - np.median(times_SR, axis=1, keepdims=True)
    apart_SR = apart_SR - np.median(apart_SR, axis=0)
    length = max(min(length, times_SR.shape[0] // 3), 1)
    num = times_SR.shape[0] // length
    means = apart_SR[: num * length].reshape(num, length, -1).mean(axis=1)
    return float(means.std())
