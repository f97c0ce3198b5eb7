"""Faults in the tables of the hooks whose rank is hidden where launches are asynchronous.

There a collective is seen from when its last member arrives. What a rank loses between its last
backward and the collective looks as what its peers wait for it meanwhile, so that all look alike,
and the tables show at most that steps are longer.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from sample_traces.generate.durations import Float
from sample_traces.generate.faults import SyntheticFault
from sample_traces.generate.job import SyntheticJob
from sample_traces.generate.labelled.doses import step_ns
from sample_traces.generate.labelled.labels import MIN_PAST, MIN_PEERS, Label
from sample_traces.generate.labelled.step_truth import not_longer
from sample_traces.generate.phase_log.job import Bool
from sample_traces.generate.simulation.draw import draw
from sample_traces.generate.simulation.replay import replay
from sample_traces.generate.simulation.shown import shown_times

JOB = ("step_regression",)
"""What fits in addition where only the length of steps shows a fault."""

_SEEN = 0.5
"""Share of what a rank loses beyond its peers that its tables must show."""


def is_hidden(job: SyntheticJob, fault: SyntheticFault) -> bool:
    """Whether in most of the steps in which ranks lose time between their operations, the rank that
    loses most of its stage does not show half of that in the time outside of its spans.
    """
    if fault.kind != "launch_skew" or not job.hides:
        return False
    hit_S = _hits(job, fault)
    calm = replace(job, faults=())
    planted = replace(job, faults=(fault,))
    lost_SPN = _apart(_stages(draw(planted).skew_SPDT - draw(calm).skew_SPDT))[hit_S]
    shown_SPN = _apart(_outside(planted) - _outside(calm))[hit_S]
    first_SP1 = lost_SPN.argmax(axis=2)[..., None]
    lost_SP1 = np.take_along_axis(lost_SPN, first_SP1, axis=2)
    shown_SP1 = np.take_along_axis(shown_SPN, first_SP1, axis=2)
    return bool((shown_SP1 >= _SEEN * lost_SP1).mean() < 1 / 2)


def of_the_job(job: SyntheticJob, fault: SyntheticFault, label: Label) -> Label:
    """The label of such a fault: the job is expected to be called slower where it clearly is."""
    others = tuple(other for other in job.faults if other is not fault)
    healthy_S, without_S, whole_S = (
        step_ns(replace(job, faults=faults)).astype(np.float64)
        for faults in ((), others, job.faults)
    )
    why_not = not_longer(healthy_S, without_S, whole_S, _hits(job, fault), MIN_PAST)
    return replace(label, also=(*label.also, *JOB), why_not=why_not)


def _hits(job: SyntheticJob, fault: SyntheticFault) -> Bool:
    return np.array([fault.hits(step) for step in range(job.steps_completed)])


def _outside(job: SyntheticJob) -> Float:
    """What each rank spends in no span between its last backward and the norm, (S, P, N) ns."""
    seen = shown_times(job, replay(job, draw(job), 0))
    before_SPDT = seen.scatter - seen.backward.ended.max(axis=0)
    return _stages(before_SPDT + seen.norm - seen.scattered)


def _stages(times_SPDT: Float) -> Float:
    """With the N ranks of each stage along one axis; small stages as one, as they have no peers."""
    num_steps, num_stages, *rest = times_SPDT.shape
    is_small = int(np.prod(rest)) <= MIN_PEERS
    return times_SPDT.reshape(num_steps, 1 if is_small else num_stages, -1).astype(np.float64)


def _apart(times_SPN: Float) -> Float:
    apart: Float = times_SPN - np.median(times_SPN, axis=2, keepdims=True)
    return apart
