"""S of a synthetic job, by its definition (2505.05713, Eq. 1) and from what was drawn.

The replay of the job runs twice: as drawn, and with every operation as long as its kind is: the
mean of all forwards, backwards and optimizers, the median of each kind of transfer. A
tensor-parallel group counts as one worker, as in the paper. Waits for data, host delays and
checkpoints lie between operations and are left out. Shape suffixes: the package's docstring.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from sample_traces.generate.durations import Durations, Float
from sample_traces.generate.job import SyntheticJob
from sample_traces.generate.simulation.draw import draw
from sample_traces.generate.simulation.replay import replay


def true_S(job: SyntheticJob) -> float:
    """Mean step time / mean step time of ideal operations."""
    drawn = _of_operations(job, draw(job))
    return _mean_ns(job, drawn) / _mean_ns(job, _ideal(job, drawn))


def _of_operations(job: SyntheticJob, d: Durations) -> Durations:
    """Without what lies between operations."""
    nothing = np.zeros_like(d.data_SPDT)
    return replace(d, data_SPDT=nothing, skew_SPDT=nothing, checkpoint_SPDT=nothing)


def _ideal(job: SyntheticJob, d: Durations) -> Durations:
    forward = _group_mean(d.forward_MSPDT + d.gc_MSPDT, d.tp_SPD)
    backward = _group_mean(d.backward_MSPDT, d.tp_SPD)
    links_ahead, links_back = d.pp_forward_SPDT[:, :-1], d.pp_backward_SPDT[:, 1:]
    return replace(
        d,
        forward_MSPDT=np.full_like(d.forward_MSPDT, forward),
        backward_MSPDT=np.full_like(d.backward_MSPDT, backward),
        gc_MSPDT=np.zeros_like(d.gc_MSPDT),
        tp_SPD=np.zeros_like(d.tp_SPD),
        pp_forward_SPDT=np.full_like(d.pp_forward_SPDT, _median(links_ahead)),
        pp_backward_SPDT=np.full_like(d.pp_backward_SPDT, _median(links_back)),
        flap_SPDT=np.zeros_like(d.flap_SPDT),
        gather_SPT=np.full_like(d.gather_SPT, _median(d.gather_SPT)),
        scatter_SPT=np.full_like(d.scatter_SPT, _median(d.scatter_SPT)),
        norm_S=np.full_like(d.norm_S, _median(d.norm_S)),
        optimizer_SPDT=np.full_like(d.optimizer_SPDT, d.optimizer_SPDT.mean()),
    )


def _group_mean(compute_MSPDT: Float, tp_SPD: Float) -> float:
    """A forward or backward ends with the all-reduce that its slowest rank begins."""
    return float((compute_MSPDT.max(axis=-1) + tp_SPD).mean())


def _median(transfers: Float) -> float:
    return float(np.median(transfers)) if transfers.size else 0.0


def _mean_ns(job: SyntheticJob, durations: Durations) -> float:
    ended_S = replay(job, durations, 0).normed[:, 0, 0, 0]
    return float(ended_S[-1]) / len(ended_S)
