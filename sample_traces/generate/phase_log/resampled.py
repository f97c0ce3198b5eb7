"""Phase logs of recorded healthy jobs, resampled, with faults planted into them.

A rank that loses time waits less for the others, as long as it would have waited, and from then on
all others wait for it, in the timer in which the recorded job's waiting lies.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from sample_traces.generate.habits import Float, Habits
from sample_traces.generate.phase_log.job import LogJob
from sample_traces.generate.phase_log.own_times import excess
from sample_traces.generate.phase_log.simulate import TIMERS, PhaseLog
from sample_traces.generate.recorded_noise import Recording

_READY = 5.0
"""Percentile of a rank's waiting timer that is its own time: it came last in those steps."""


@dataclass(frozen=True)
class Resampled:
    """A recording cut into blocks and joined to a log of `job.num_steps` steps.

    The job's ranks are those recorded, in another order; its faults act, its habits do not.
    """

    recording: Recording
    job: LogJob

    @cached_property
    def log(self) -> PhaseLog:
        """What the ranks log."""
        rest, timers = self._healthy
        step_SR = rest + sum(timers.values())
        for name, more_SR in self._more(timers | {"rest": rest}).items():
            step_SR = step_SR + more_SR
            if name != "rest":
                timers[name] = timers[name] + more_SR
        shown = {n: timers.get(n, np.zeros_like(step_SR)) for n in TIMERS}
        step_S = np.median(step_SR, axis=1)
        return PhaseLog(shown, step_SR, np.cumsum(step_S)[:, None] + step_SR - step_S[:, None])

    @property
    def _healthy(self) -> tuple[Float, dict[str, Float]]:
        """Times outside of the timers, and by timer."""
        random = np.random.default_rng(self.job.noise_seed)
        step_S = self.recording.blocks(self.job.num_steps, random)
        chosen = np.ix_(step_S, random.permutation(self.recording.step_SR.shape[1]))
        timers = {n: self.recording.timers[n][chosen] for n in self.recording.logged}
        return self.recording.rest_SR[chosen], timers

    def _more(self, shown: dict[str, Float]) -> dict[str, Float]:
        """What the faults add to each timer and to rest; waiting may become less."""
        hides = self.recording.hides
        added = {name: np.zeros_like(shown["rest"]) for name in shown}
        own_SR = np.zeros_like(shown["rest"])
        for fault in self.job.faults:
            lost_SR = excess(self.job, fault)
            if fault.phase == "tail":
                added["comm" if "comm" in shown else "rest"] += lost_SR
                continue
            added[fault.phase if fault.phase in shown else "rest"] += lost_SR
            own_SR += lost_SR
        spare_SR = shown[hides] - np.percentile(shown[hides], _READY, axis=0)
        late_SR = own_SR - np.maximum(spare_SR, 0)
        longer_S1 = np.maximum(late_SR.max(axis=1, keepdims=True), 0)
        added[hides] += longer_S1 - own_SR
        np.maximum(added[hides], -shown[hides], out=added[hides])
        return added


def resampled(recording: Recording, job: LogJob) -> PhaseLog:
    """The log of a job whose noise is recorded; equal for equal arguments."""
    return Resampled(recording, job).log


def like_recorded(job: LogJob, recording: Recording) -> LogJob:
    """A job with ranks, step time and timers of the recording."""
    num_ranks = recording.step_SR.shape[1]
    optional = {"comm_ms", "wait_ms"}
    keys = (job.keys - optional) | {f"{name}_ms" for name in recording.logged}
    return replace(
        job,
        num_ranks=num_ranks,
        step_ms=float(np.median(recording.step_SR)),
        hides=((recording.hides, 1.0),),
        keys=frozenset(keys),
        habits=Habits(),
        lags=False,
        ranks_per_host=num_ranks,
    )
