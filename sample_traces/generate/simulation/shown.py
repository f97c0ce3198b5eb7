"""When operations seem to happen where launches are asynchronous and timers do not synchronise.

A collective is seen from when its last member has arrived: only its transfer. What a member waits
before lies in its last backward, or in no span.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from sample_traces.generate.durations import Ns
from sample_traces.generate.job import SyntheticJob
from sample_traces.generate.simulation.replay import Pass, Times


def shown_times(job: SyntheticJob, times: Times) -> Times:
    """Times as the job's hooks see them; receives are seen as they are."""
    if not job.hides:
        return times
    gather, scatter = times.gather, times.scatter
    if job.dp > 1:
        gather, scatter = _last_of(gather, 2), _last_of(scatter, 2)
    norm = _last_of(times.scattered, (1, 2, 3))
    backward = times.backward
    if job.hides == "compute" and job.tp == 1:
        last_SPDT = backward.ended.max(axis=0)
        longer = np.where(backward.ended == last_SPDT, scatter, backward.ended)
        backward = Pass(backward.posted, backward.begun, longer, longer)
    return replace(times, gather=gather, scatter=scatter, norm=norm, backward=backward)


def _last_of(arrived: Ns, axes: int | tuple[int, ...]) -> Ns:
    last: Ns = np.broadcast_to(arrived.max(axis=axes, keepdims=True), arrived.shape)
    return last
