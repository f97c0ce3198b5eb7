"""What every rank does by itself in each step: noise, habits of the job, faults."""

from __future__ import annotations

import numpy as np

from sample_traces.generate.habits import Float, added_times, compute_factors
from sample_traces.generate.phase_log.job import LogFault, LogJob

_LEAST_MS = 0.02
_HABITS = 11
"""Keeps the draw of healthy times apart from others of the same seed."""


def own_times(job: LogJob) -> dict[str, Float]:
    """(S, R) ms of the rank's own data, compute and rest, and of the collective (tail)."""
    own = healthy_times(job)
    for fault in job.faults:
        own[fault.phase] += excess(job, fault)
    return own


def healthy_times(job: LogJob) -> dict[str, Float]:
    """The same without faults."""
    random = np.random.default_rng([job.noise_seed, _HABITS])
    (S, R), habits = (job.num_steps, job.num_ranks), job.habits
    means = {name: job.step_ms * share for name, share in job.shares}
    tail_S1 = job.step_ms * job.tail * np.exp(0.05 * random.standard_normal((S, 1)))
    own = {
        "data": means["data"] * np.exp(habits.data_noise * random.standard_normal((S, R))),
        "compute": means["compute"] * compute_factors(habits, S, R, random),
        "rest": means["rest"] * np.exp(0.05 * random.standard_normal((S, R))),
    }
    for name, share_SR in added_times(habits, S, R, random).items():
        own[name] = np.maximum(own[name] + job.step_ms * share_SR, _LEAST_MS)
    return {**own, "tail": np.repeat(tail_S1, R, axis=1)}


def excess(job: LogJob, fault: LogFault) -> Float:
    """(S, R) ms that a fault adds."""
    hit_S = fault.hits(job.num_steps)
    random = np.random.default_rng([fault.seed, 2])
    added_SR = np.zeros((job.num_steps, job.num_ranks))
    ranks = list(fault.ranks) or list(range(job.num_ranks))
    size = (job.num_steps, len(ranks) if fault.independent else 1)
    spread = random.exponential(1.0, size) if fault.independent else random.standard_normal(size)
    strength = spread if fault.independent else np.maximum(1 + fault.jitter * spread, 0.1)
    if fault.phase == "tail":
        ranks = list(range(job.num_ranks))
    added_SR[:, ranks] = fault.ms * strength * hit_S[:, None]
    if fault.pattern == "growing":
        added_SR *= _ramp(fault, job.num_steps)[:, None]
    return added_SR


def _ramp(fault: LogFault, num_steps: int) -> Float:
    """From 0.4 to 1.6 over the steps of the fault."""
    length = max(fault.last_step - fault.first_step, 1)
    ramp: Float = 0.4 + 1.2 * (np.arange(num_steps) - fault.first_step).clip(0, length) / length
    return ramp
