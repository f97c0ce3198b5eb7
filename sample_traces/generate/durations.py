"""How long every operation of a synthetic job takes by itself, noise and faults included."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sample_traces.generate.faults import SyntheticFault
from sample_traces.generate.job import RANKS_PER_HOST, SyntheticJob

Ns = npt.NDArray[np.int64]
Float = npt.NDArray[np.float64]
Random = np.random.Generator

MS = 1_000_000

COMPUTE_NOISE, TRANSFER_NOISE = 0.01, 0.03
"""Standard deviation of the logarithm of durations."""

SPIKE_EVERY_STEPS = 10


@dataclass
class Durations:
    """Nanoseconds each operation takes once it can begin. Shapes: the package's docstring.

    Transfers are times of the wire, without waiting for the other members.
    """

    forward_MSPDT: Float
    backward_MSPDT: Float
    gc_MSPDT: Float  # a pause inside the forward, comes on top of it
    wall_per_cpu_SPDT: Float
    tp_SPD: Float  # all-reduce at the end of a forward or backward
    pp_forward_SPDT: Float  # from this stage to the next
    pp_backward_SPDT: Float  # from this stage to the one before
    gather_SPT: Float
    scatter_SPT: Float
    norm_S: Float
    data_SPDT: Float
    skew_SPDT: Float  # host delay before the reduce-scatter
    optimizer_SPDT: Float
    work_MSD: Float  # share of a micro-batch's work, 1 on average


def draw(job: SyntheticJob) -> Durations:
    """Durations of all completed steps; equal for equal jobs (the seed is part of the job)."""
    random = np.random.default_rng(job.seed)
    M, S, P, D, T = (job.num_microbatches, job.steps_completed, job.pp, job.dp, job.tp)

    def noisy(mean_ms: float, spread: float, *shape: int) -> Float:
        # float32 draws halve the time and memory of the big arrays
        noise = random.standard_normal(shape, dtype=np.float32) * np.float32(spread)
        return mean_ms * MS * np.exp(noise, dtype=np.float64)

    durations = Durations(
        forward_MSPDT=noisy(10.0, COMPUTE_NOISE, M, S, P, D, T),
        backward_MSPDT=noisy(20.0, COMPUTE_NOISE, M, S, P, D, T),
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
        work_MSD=np.ones((M, S, D)),
    )
    for fault in job.faults:
        if fault.kind in _EFFECTS:
            _EFFECTS[fault.kind](durations, job, fault, _active_steps(job, fault), random)
    return durations


def _active_steps(job: SyntheticJob, fault: SyntheticFault) -> slice:
    end = job.steps_completed if fault.last_step is None else fault.last_step + 1
    return slice(fault.first_step, min(end, job.steps_completed))


Effect = Callable[[Durations, SyntheticJob, SyntheticFault, slice, Random], None]


def cell(job: SyntheticJob, rank: int) -> tuple[int, int, int]:
    """(p, d, t) of a global rank."""
    p, rest = divmod(rank, job.dp * job.tp)
    return (p, *divmod(rest, job.tp))


def _on_host(job: SyntheticJob, host: int) -> npt.NDArray[np.bool_]:
    """Which cells (P, D, T) lie on a host."""
    hosts = np.arange(job.num_ranks) // RANKS_PER_HOST
    return (hosts == host).reshape(job.pp, job.dp, job.tp)


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
    factor_PDT = np.where(_on_host(job, fault.where or 0), fault.dose, 1.0)
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
        compute[:, steps] *= work[:, :, None, :, None]


def _jit_spikes(
    d: Durations, job: SyntheticJob, fault: SyntheticFault, steps: slice, _: Random
) -> None:
    spiky = [s for s in range(steps.start, steps.stop) if s % SPIKE_EVERY_STEPS == 0]
    d.forward_MSPDT[0, spiky] += fault.dose * MS


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


def _slow_link(
    d: Durations, job: SyntheticJob, fault: SyntheticFault, steps: slice, _: Random
) -> None:
    p, *lane = cell(job, fault.where or 0)
    d.pp_forward_SPDT[steps, p, *lane] *= fault.dose
    d.pp_backward_SPDT[steps, p + 1, *lane] *= fault.dose


def _slow_node_link(
    d: Durations, job: SyntheticJob, fault: SyntheticFault, steps: slice, _: Random
) -> None:
    d.tp_SPD[steps] *= np.where(_on_host(job, fault.where or 0).any(axis=-1), fault.dose, 1.0)


def _slow_dp_network(
    d: Durations, job: SyntheticJob, fault: SyntheticFault, steps: slice, _: Random
) -> None:
    p, _d, t = cell(job, fault.where or 0)
    for transfer in (d.gather_SPT, d.scatter_SPT):
        transfer[steps, p, t] *= fault.dose


def _comm_regression(
    d: Durations, job: SyntheticJob, fault: SyntheticFault, steps: slice, _: Random
) -> None:
    for transfer in (
        d.tp_SPD, d.pp_forward_SPDT, d.pp_backward_SPDT, d.gather_SPT, d.scatter_SPT, d.norm_S
    ):  # fmt: skip
        transfer[steps] *= fault.dose


_EFFECTS: dict[str, Effect] = {
    "slow_worker": _slow_worker,
    "slow_stage": _slow_stage,
    "host_contention": _host_contention,
    "sequence_imbalance": _sequence_imbalance,
    "jit_spikes": _jit_spikes,
    "gc_pauses": _gc_pauses,
    "data_loader": _data_loader,
    "launch_skew": _launch_skew,
    "slow_link": _slow_link,
    "slow_node_link": _slow_node_link,
    "slow_dp_network": _slow_dp_network,
    "comm_regression": _comm_regression,
}
"""dead_rank and clock_unaligned change no duration: see job.py and clocks.py."""
