"""From what the ranks do by themselves to what their logs show."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sample_traces.generate.habits import Float
from sample_traces.generate.phase_log.job import OWN, LogJob
from sample_traces.generate.phase_log.own_times import own_times

TIMERS = ("data", "compute", "comm", "wait")

_LEAVES_MS = 0.05
"""Spread of the moments at which the ranks leave a collective."""
_SYNC, _LEAVE = 0.004, 17


@dataclass(frozen=True)
class PhaseLog:
    """What each rank logs: ms by timer, step time, and when each step ended since the start."""

    timers: dict[str, Float]
    step_SR: Float
    end_SR: Float

    @property
    def step_S(self) -> Float:
        """Step time of the job: the median over ranks."""
        times: Float = np.median(self.step_SR, axis=1)
        return times


def simulate(job: LogJob) -> PhaseLog:
    """The log of a job; equal for equal jobs."""
    own = own_times(job)
    random = np.random.default_rng([job.noise_seed, _LEAVE])
    ready_SR = own["data"] + own["compute"] + own["rest"]
    wait_SR = ready_SR.max(axis=1, keepdims=True) - ready_SR
    sync_SR = _SYNC * job.step_ms * np.exp(0.3 * random.standard_normal(wait_SR.shape))
    met_S = ready_SR.max(axis=1) + own["tail"][:, 0] + sync_SR.max(axis=1)
    end_SR = np.cumsum(met_S)[:, None] + np.abs(random.normal(0, _LEAVES_MS, wait_SR.shape))
    hidden = dict(job.hides)
    shown_SR = wait_SR
    if job.lags:
        end_SR = end_SR - wait_SR
        shown_SR = np.vstack([np.zeros_like(wait_SR[:1]), wait_SR[:-1]])
    timers = {name: own[name] + hidden.get(name, 0.0) * shown_SR for name in OWN}
    timers["comm"] = own["tail"] * np.exp(0.03 * random.standard_normal(wait_SR.shape))
    timers["comm"] = timers["comm"] + hidden.get("comm", 0.0) * shown_SR
    timers["wait"] = sync_SR
    step_SR = np.diff(end_SR, axis=0, prepend=0.0)
    return PhaseLog({name: timers[name] for name in TIMERS}, step_SR, end_SR)
