"""Draws how long every operation of a synthetic job takes: noise, habits of the job, faults."""

from __future__ import annotations

import numpy as np

from sample_traces.generate.durations import MS, Durations, Float
from sample_traces.generate.faults import EVERY_STEPS
from sample_traces.generate.habits import Habits, added_times, compute_factors
from sample_traces.generate.job import SyntheticJob
from sample_traces.generate.recorded_noise import load_recording
from sample_traces.generate.simulation.effects import EFFECTS, active_steps, on_chunks

COMPUTE_NOISE, TRANSFER_NOISE = 0.01, 0.03
"""Standard deviation of the logarithm of durations."""

ATTENTION = 0.4
"""Share of the compute of a layer."""

UNLIKE = 2.0
"""Standard deviations that a healthy device is off at most: what is slower is a fault."""

_HABITS_STREAM, _MORE_STREAM, _RECORDED_STREAM = 0xAB17, 0xAB18, 0xAB19
"""Keep the draws of habits apart from that of durations."""


def draw(job: SyntheticJob) -> Durations:
    """Durations of all completed steps; equal for equal jobs (the seed is part of the job)."""
    random = np.random.default_rng(job.seed)
    M, S, P, D, T = (job.units, job.steps_completed, job.pp, job.dp, job.tp)

    def noisy(mean_ms: float, spread: float, *shape: int) -> Float:
        # float32 draws halve the time and memory of the big arrays
        noise = random.standard_normal(shape, dtype=np.float32) * np.float32(spread * job.noise)
        return mean_ms * job.pace * MS * np.exp(noise, dtype=np.float64)

    durations = Durations(
        forward_MSPDT=noisy(10.0 / job.chunks, COMPUTE_NOISE, M, S, P, D, T),
        backward_MSPDT=noisy(20.0 / job.chunks, COMPUTE_NOISE, M, S, P, D, T),
        gc_MSPDT=np.zeros((M, S, P, D, T)),
        wall_per_cpu_SPDT=np.ones((S, P, D, T)),
        tp_SPD=noisy(0.8, TRANSFER_NOISE, S, P, D) if T > 1 else np.zeros((S, P, D)),
        pp_forward_SPDT=noisy(0.5, TRANSFER_NOISE, S, P, D, T),
        pp_backward_SPDT=noisy(0.5, TRANSFER_NOISE, S, P, D, T),
        gather_SPT=noisy(3.0, TRANSFER_NOISE, S, P, T) if D > 1 else np.zeros((S, P, T)),
        scatter_SPT=noisy(4.0, TRANSFER_NOISE, S, P, T) if D > 1 else np.zeros((S, P, T)),
        norm_S=noisy(0.3, TRANSFER_NOISE, S) if job.num_ranks > 1 else np.zeros(S),
        data_SPDT=noisy(1.0, 0.1, S, P, D, T),
        skew_SPDT=np.zeros((S, P, D, T)),
        optimizer_SPDT=noisy(3.0, COMPUTE_NOISE, S, P, D, T),
        work_MSD=np.ones((job.num_microbatches, S, D)),
        checkpoint_SPDT=np.zeros((S, P, D, T)),
        flap_SPDT=np.zeros((S, P, D, T)),
        attention_S=np.full(S, ATTENTION),
        hooks_S=np.zeros(S),
    )
    durations.checkpoint_SPDT[::EVERY_STEPS] = job.save_ms * job.pace * MS
    if job.device_spread or job.ragged:
        _add_habits(durations, job)
    if job.habits is not None:
        _add_more_habits(durations, job, job.habits)
    if job.recorded:
        _add_recorded_noise(durations, job)
    for fault in job.faults:
        if fault.kind in EFFECTS:
            EFFECTS[fault.kind](durations, job, fault, active_steps(job, fault), random)
    return durations


def _add_habits(durations: Durations, job: SyntheticJob) -> None:
    """What healthy jobs have too: devices that are not quite equal, batches of uneven work."""
    random = np.random.default_rng([job.seed, _HABITS_STREAM])
    unlike_PDT = random.standard_normal((job.pp, job.dp, job.tp)).clip(-UNLIKE, UNLIKE)
    device_PDT = np.exp(job.device_spread * unlike_PDT)
    work_MSD = np.exp(job.ragged * random.standard_normal(durations.work_MSD.shape))
    durations.work_MSD *= work_MSD
    for compute in (durations.forward_MSPDT, durations.backward_MSPDT):
        compute *= device_PDT
        compute *= on_chunks(job, work_MSD)[:, :, None, :, None]


def _add_more_habits(durations: Durations, job: SyntheticJob, habits: Habits) -> None:
    """What host-bound jobs have too. Time that ranks lose in compute is no CPU time."""
    random = np.random.default_rng([job.seed, _MORE_STREAM])
    shape = durations.skew_SPDT.shape
    size = (shape[0], job.num_ranks)
    factors_SPDT = compute_factors(habits, *size, random).reshape(shape)
    for compute in (durations.forward_MSPDT, durations.backward_MSPDT):
        compute *= factors_SPDT
    step_ns = (durations.forward_MSPDT + durations.backward_MSPDT).sum(axis=0).mean()
    added = added_times(habits, *size, random)
    data_SPDT, rest_SPDT, longer_SPDT = (
        (added[name] * step_ns).reshape(shape) for name in ("data", "rest", "compute")
    )
    durations.data_SPDT += np.maximum(data_SPDT, -durations.data_SPDT / 2)
    durations.skew_SPDT += np.maximum(rest_SPDT, 0)
    _lose_in_compute(durations, 1 + longer_SPDT / step_ns)


def _add_recorded_noise(durations: Durations, job: SyntheticJob) -> None:
    factors_SR = recorded_factors(job)
    if job.recorded_on:
        factors_SR[:, np.setdiff1d(np.arange(job.num_ranks), job.recorded_on)] = 1.0
    calm = load_recording(job.recorded).calm
    _lose_in_compute(durations, factors_SR.reshape(durations.skew_SPDT.shape), calm)


def recorded_factors(job: SyntheticJob) -> Float:
    """(S, R): how many times as long compute takes for the recorded noise, on whatever ranks."""
    random = np.random.default_rng([job.seed, _RECORDED_STREAM])
    recording = load_recording(job.recorded)
    return recording.compute_factors(job.steps_completed, job.num_ranks, random)


def _lose_in_compute(durations: Durations, factor_SPDT: Float, calm: float = 1.0) -> None:
    """All compute takes longer or shorter; what is longer than `calm` times is no CPU time."""
    for compute in (durations.forward_MSPDT, durations.backward_MSPDT):
        compute *= factor_SPDT
    durations.wall_per_cpu_SPDT *= np.maximum(factor_SPDT / calm, 1)
