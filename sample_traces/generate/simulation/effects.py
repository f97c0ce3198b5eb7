"""What each kind of fault does to the durations of a synthetic job.

dead_rank, clock_unaligned and data_gaps change none: see job.py, simulation/clocks.py and
tables/write.py.
"""

from __future__ import annotations

import math

import numpy as np

from sample_traces.generate.durations import MS, Durations, Float
from sample_traces.generate.faults import SyntheticFault
from sample_traces.generate.job import SyntheticJob, cell, on_host
from sample_traces.generate.simulation.effects_network import NETWORK_EFFECTS, Effect, Random


def active_steps(job: SyntheticJob, fault: SyntheticFault) -> slice:
    """Completed steps from the first to the last in which the fault acts."""
    end = job.steps_completed if fault.last_step is None else fault.last_step + 1
    return slice(fault.first_step, min(end, job.steps_completed))


def on_chunks(job: SyntheticJob, work_MSD: Float) -> Float:
    """What micro-batches have, by forward or backward: all chunks have the same."""
    return np.tile(work_MSD, (job.chunks, 1, 1))


def _slow_worker(
    d: Durations, job: SyntheticJob, fault: SyntheticFault, steps: slice, _: Random
) -> None:
    where = cell(job, fault.where or 0)
    for compute in (d.forward_MSPDT, d.backward_MSPDT):
        compute[:, steps, *where] *= fault.dose


def _slow_stage(
    d: Durations, job: SyntheticJob, fault: SyntheticFault, steps: slice, _: Random
) -> None:
    for compute in (d.forward_MSPDT, d.backward_MSPDT):
        compute[:, steps, fault.where] *= fault.dose


def _host_contention(
    d: Durations, job: SyntheticJob, fault: SyntheticFault, steps: slice, _: Random
) -> None:
    factor_PDT = np.where(on_host(job, fault.where or 0), fault.dose, 1.0)
    for compute in (d.forward_MSPDT, d.backward_MSPDT):
        compute[:, steps] *= factor_PDT
    d.wall_per_cpu_SPDT[steps] *= factor_PDT


def _sequence_imbalance(
    d: Durations,
    job: SyntheticJob,
    fault: SyntheticFault,
    steps: slice,
    random: Random,
) -> None:
    spread = math.log(fault.dose)
    work = np.exp(random.standard_normal(d.work_MSD[:, steps].shape) * spread - spread**2 / 2)
    d.work_MSD[:, steps] *= work
    for compute in (d.forward_MSPDT, d.backward_MSPDT):
        compute[:, steps] *= on_chunks(job, work)[:, :, None, :, None]


def _jit_spikes(
    d: Durations, job: SyntheticJob, fault: SyntheticFault, steps: slice, _: Random
) -> None:
    hit = [step for step in range(steps.start, steps.stop) if fault.hits(step)]
    d.forward_MSPDT[0, hit] += fault.dose * MS


def _allocator_stalls(
    d: Durations, job: SyntheticJob, fault: SyntheticFault, steps: slice, _: Random
) -> None:
    hit = [step for step in range(steps.start, steps.stop) if fault.hits(step)]
    d.forward_MSPDT[0, hit, *cell(job, fault.where or 0)] += fault.dose * MS


def _gc_pauses(
    d: Durations,
    job: SyntheticJob,
    fault: SyntheticFault,
    steps: slice,
    random: Random,
) -> None:
    for step in range(steps.start, steps.stop):
        microbatch = int(random.integers(job.num_microbatches))
        where = cell(job, int(random.integers(job.num_ranks)))
        d.gc_MSPDT[microbatch, step, *where] += fault.dose * MS


def _data_loader(
    d: Durations, job: SyntheticJob, fault: SyntheticFault, steps: slice, _: Random
) -> None:
    d.data_SPDT[steps] += fault.dose * MS


def _launch_skew(
    d: Durations,
    job: SyntheticJob,
    fault: SyntheticFault,
    steps: slice,
    random: Random,
) -> None:
    d.skew_SPDT[steps] += random.exponential(fault.dose * MS, d.skew_SPDT[steps].shape)


def _slow_checkpoint(
    d: Durations, job: SyntheticJob, fault: SyntheticFault, steps: slice, _: Random
) -> None:
    hit = [step for step in range(steps.start, steps.stop) if fault.hits(step)]
    d.checkpoint_SPDT[hit, *cell(job, fault.where or 0)] += fault.dose * MS


def _step_regression(
    d: Durations, job: SyntheticJob, fault: SyntheticFault, steps: slice, _: Random
) -> None:
    for compute in (d.forward_MSPDT, d.backward_MSPDT):
        compute[:, steps] *= fault.dose


def _slow_op(
    d: Durations, job: SyntheticJob, fault: SyntheticFault, steps: slice, _: Random
) -> None:
    before_S = d.attention_S[steps]
    longer_S = 1 + before_S * (fault.dose - 1)
    for compute in (d.forward_MSPDT, d.backward_MSPDT):
        compute[:, steps] *= longer_S[:, None, None, None]
    d.attention_S[steps] = before_S * fault.dose / longer_S


def _monitor_overhead(
    d: Durations, job: SyntheticJob, fault: SyntheticFault, steps: slice, _: Random
) -> None:
    d.skew_SPDT[steps] += fault.dose * MS
    d.hooks_S[steps] += fault.dose * MS


EFFECTS: dict[str, Effect] = {
    **NETWORK_EFFECTS,
    "slow_worker": _slow_worker,
    "slow_stage": _slow_stage,
    "slow_op": _slow_op,
    "step_regression": _step_regression,
    "host_contention": _host_contention,
    "sequence_imbalance": _sequence_imbalance,
    "jit_spikes": _jit_spikes,
    "allocator_stalls": _allocator_stalls,
    "gc_pauses": _gc_pauses,
    "data_loader": _data_loader,
    "launch_skew": _launch_skew,
    "slow_checkpoint": _slow_checkpoint,
    "monitor_overhead": _monitor_overhead,
}
