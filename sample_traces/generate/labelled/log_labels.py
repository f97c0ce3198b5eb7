"""What a diagnosis should find of a fault in phase logs, and whether the logs allow it.

Decided from the simulation alone: the same job with and without the fault. A rank can be named if
some logged timer shows it apart from the others, by so much that it exceeds what the same timer of
any healthy rank does over as many steps. If none does, the logs show at most that steps are longer.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from sample_traces.generate.habits import Float
from sample_traces.generate.labelled.labels import Label
from sample_traces.generate.labelled.step_truth import CLEAR, FOR_SHORT, not_longer, window_means
from sample_traces.generate.phase_log.job import Bool, LogFault, LogJob
from sample_traces.generate.phase_log.simulate import PhaseLog, simulate

FITTING = {
    "data": ("data_loader", "gc_pauses", "slow_worker", "launch_skew"),
    "compute": ("slow_worker", "launch_skew", "host_contention", "allocator_stalls"),
    "rest": ("launch_skew", "slow_worker", "host_contention", "gc_pauses", "allocator_stalls"),
}
"""Kinds that fit a late rank, by the phase in which it loses time: sums of phases do not tell
which of them it is. Those of rest hold where no timer shows the cause.
"""
RARE = ("jit_spikes",)
"""Fits in addition where only some steps are hit."""
HOST_WIDE = ("host_contention", "slow_host", "step_regression", "launch_skew")
"""Of all ranks of a host, with what fits each of them."""
JOB = {"data": ("data_loader",), "tail": ("comm_regression",), "compute": (), "rest": ()}

LEAST_SHARE = 0.02
"""Of the step; less is no straggler."""
MIN_PAST = 20
"""Steps without the fault that show what is usual."""


@dataclass(frozen=True)
class Plan:
    """A fault with what was planted; `host_wide`: it hits all ranks of a host."""

    planted: str
    fault: LogFault
    host_wide: bool = False


LogOf = Callable[[LogJob], PhaseLog]


def labels_of(job: LogJob, plans: tuple[Plan, ...], log_of: LogOf = simulate) -> tuple[Label, ...]:
    """Labels of all faults of a job."""
    return tuple(_label(job, plan, log_of) for plan in plans)


def _label(job: LogJob, plan: Plan, log_of: LogOf) -> Label:
    fault = plan.fault
    healthy, whole = log_of(replace(job, faults=())), log_of(job)
    hit_S = fault.hits(job.num_steps)
    rare = RARE if fault.pattern in ("periodic", "random") else ()
    first, last = (int(step) for step in np.flatnonzero(hit_S)[[0, -1]])
    label = Label(
        "step_regression",
        (),
        (),
        (),
        first,
        last,
        job_ranks=job.num_ranks,
        planted=plan.planted,
        also=(*JOB.get(fault.phase, ()), *rare),
    )
    others = tuple(other for other in job.faults if other is not fault)
    without = log_of(replace(job, faults=others))
    window = (fault.first_step, fault.last_step)
    apart = tuple(f for f in job.faults if (f.first_step, f.last_step) != window)
    why_not = _job_is_not_shown(healthy, log_of(replace(job, faults=apart)), whole, hit_S)
    if plan.host_wide:
        kind, *also = HOST_WIDE
        host = job.host_of(fault.ranks[0] if fault.ranks else 0)
        label = replace(label, ranks=fault.ranks, hosts=(host,) if host else (), or_nobody=True)
        also = [*also, *(fit for fit in FITTING[fault.phase] if fit not in HOST_WIDE), *rare]
        return replace(label, kind=kind, also=tuple(also), why_not=why_not)
    if not fault.ranks:
        return replace(label, why_not=why_not)
    if all(is_shown(job, rank, healthy, without, whole, hit_S) for rank in fault.ranks):
        kind, *also = FITTING[fault.phase]
        return replace(label, kind=kind, also=tuple(also), ranks=fault.ranks)
    return replace(label, culprits=fault.ranks, why_not=why_not)


def is_shown(
    job: LogJob, rank: int, healthy: PhaseLog, without: PhaseLog, whole: PhaseLog, hit_S: Bool
) -> bool:
    """Whether a logged timer of the rank shows the fault."""
    num_hit = int(hit_S.sum())
    if num_hit < FOR_SHORT:
        return False
    has_past = num_hit + MIN_PAST <= job.num_steps
    for name in logged(job):
        apart_SR = _apart(_shown(healthy, name), has_past)
        noise = float(window_means(apart_SR, num_hit).std())
        shown_SR = _apart(_shown(whole, name), False) - _apart(_shown(without, name), False)
        seen_S = np.roll(hit_S, 1) if job.lags else hit_S
        size = max(abs(float(shown_SR[of_S, rank].mean())) for of_S in (hit_S, seen_S))
        if size >= max(CLEAR * noise, LEAST_SHARE * job.step_ms):
            return True
    return False


def logged(job: LogJob) -> list[str]:
    """Timers in the log, and what no timer covers."""
    timers = ("data", "compute", "comm", "wait")
    return [*(name for name in timers if f"{name}_ms" in job.keys), "rest"]


def _shown(log: PhaseLog, name: str) -> Float:
    if name != "rest":
        return log.timers[name]
    rest_SR: Float = log.step_SR - sum(log.timers.values())
    return rest_SR


def _apart(times_SR: Float, has_past: bool) -> Float:
    """From the other ranks; `has_past`: from what the rank itself usually is, too."""
    apart_SR: Float = times_SR - np.median(times_SR, axis=1, keepdims=True)
    return apart_SR - np.median(apart_SR, axis=0) if has_past else apart_SR


def _job_is_not_shown(healthy: PhaseLog, without: PhaseLog, whole: PhaseLog, hit_S: Bool) -> str:
    """Why the steps are not clearly longer with the fault, empty where they are."""
    return not_longer(healthy.step_S, without.step_S, whole.step_S, hit_S, MIN_PAST)
