"""What every rank does by itself in each step: noise, habits of the job, faults."""

from __future__ import annotations

import math

import numpy as np

from sample_traces.generate.phase_log.job import Float, LogFault, LogJob

_UNLIKE = 2.0
"""Standard deviations that a healthy device is off at most."""
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
    habits, random = job.habits, np.random.default_rng([job.noise_seed, _HABITS])
    shape = (job.num_steps, job.num_ranks)
    means = {name: job.step_ms * share for name, share in job.shares}
    own = {
        "data": means["data"] * np.exp(habits.data_noise * random.standard_normal(shape)),
        "compute": means["compute"] * _compute_noise(job, random),
        "rest": means["rest"] * np.exp(0.05 * random.standard_normal(shape)),
        "tail": np.repeat(
            job.step_ms * job.tail * np.exp(0.05 * random.standard_normal((job.num_steps, 1))),
            job.num_ranks,
            axis=1,
        ),
    }
    _add_swings(own, job, random)
    _add_spikes(own, job, random)
    _add_periodic(own, job, random)
    own[habits.quirk_phase][:, 0] += habits.quirk * job.step_ms
    for first, last, rank, share in habits.stalls:
        own[habits.stall_phase][first : last + 1 : 2, rank] += share * job.step_ms
    for first, last, share in habits.slow:
        own["compute"][first : last + 1] += share * job.step_ms
    return own


def _compute_noise(job: LogJob, random: np.random.Generator) -> Float:
    """Factors of compute, 1 on average."""
    habits, (S, R) = job.habits, (job.num_steps, job.num_ranks)
    device_R = habits.device * random.standard_normal(R).clip(-_UNLIKE, _UNLIKE)
    role_R = np.log(np.array(habits.roles))[np.arange(R) * len(habits.roles) // R]
    common_S1 = habits.common * correlated(random, (S, 1), habits.memory)
    white_SR = habits.noise * random.standard_normal((S, R))
    factor: Float = np.exp(device_R + role_R + common_S1 + white_SR)
    step_S1 = np.arange(S)[:, None]
    return factor * (
        1
        + habits.warm_up * np.exp(-step_S1 / habits.settles)
        + habits.trend * step_S1 / max(S - 1, 1)
    )


def correlated(random: np.random.Generator, shape: tuple[int, int], memory: float) -> Float:
    """AR(1) noise along the first axis, standard deviation 1; `memory`: steps to decay to 1/e."""
    keeps = math.exp(-1 / max(memory, 1e-3))
    drawn = random.standard_normal(shape)
    for step in range(1, shape[0]):
        drawn[step] = keeps * drawn[step - 1] + math.sqrt(1 - keeps**2) * drawn[step]
    return drawn


def _add_swings(own: dict[str, Float], job: LogJob, random: np.random.Generator) -> None:
    """Ranks of a host-bound job lose and regain time over many steps; never less than nothing."""
    habits = job.habits
    if not habits.swing:
        return
    level_SR = correlated(random, (job.num_steps, job.num_ranks), habits.memory)
    jitter_SR = random.standard_normal(level_SR.shape)
    swings = habits.swing * job.step_ms * (level_SR + 0.5 * jitter_SR)
    own[habits.swing_phase] += np.maximum(swings, 0) + 0.2 * np.minimum(swings, 0)
    np.maximum(own[habits.swing_phase], 0.05, out=own[habits.swing_phase])


def _add_spikes(own: dict[str, Float], job: LogJob, random: np.random.Generator) -> None:
    habits = job.habits
    hit_SR = random.random((job.num_steps, job.num_ranks)) < habits.spikes
    own[habits.spike_phase] += (
        hit_SR * random.exponential(habits.spike or 1e-9, hit_SR.shape) * job.step_ms
    )


def _add_periodic(own: dict[str, Float], job: LogJob, random: np.random.Generator) -> None:
    habits = job.habits
    if not habits.every:
        return
    hit = np.arange(habits.every - 1, job.num_steps, habits.every)
    like = 1 + 0.02 * random.standard_normal((hit.size, job.num_ranks))
    own[habits.unnamed_phase][hit] += habits.unnamed * job.step_ms * like


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
