"""Whether ranks really are late for the recorded noise of a job, in given steps.

The noise of real jobs on busy cores holds contention that lasts: for ten steps all ranks recorded
together may take twice as long. Put on some ranks of a bigger job, it delays that job as a planted
contention would, and whoever names these ranks for it is right. So it is simulated like one.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from sample_traces.generate.durations import Float
from sample_traces.generate.job import SyntheticJob
from sample_traces.generate.labelled.doses import DOSES, step_ns
from sample_traces.generate.simulation.draw import recorded_factors

Bool = npt.NDArray[np.bool_]

FITTING = ("host_contention",)
"""Kinds that are right: in the tables of the hooks, the noise is wall time without CPU time."""

LEAST = DOSES["masked"]
"""Times as long as the other ranks' compute, and as the job's steps without it."""


@dataclass(frozen=True)
class NoiseTruth:
    """The recorded noise of a job, which may have none."""

    job: SyntheticJob

    def delays(self, kind: str, ranks: Collection[int], first_step: int, last_step: int) -> bool:
        """Whether in most of these steps each of these ranks takes at least LEAST times as long
        as the others of their stages (or of the job, where these have no others), and their noise
        alone makes most of the steps LEAST times as long.
        """
        span = slice(max(first_step - self.job.resumed_at, 0), last_step - self.job.resumed_at + 1)
        is_named_R = np.isin(np.arange(self.job.num_ranks), list(ranks))
        if not self.job.recorded or kind not in FITTING or is_named_R.all() or not ranks:
            return False
        factors_SR = recorded_factors(self.job)[span]
        others_S1 = np.median(factors_SR[:, self._others(is_named_R)], axis=1, keepdims=True)
        ratio_R: Float = np.median(factors_SR[:, is_named_R] / others_S1, axis=0)
        return bool((ratio_R >= LEAST).all()) and self._lengthens(tuple(ranks), span)

    def _others(self, is_named_R: Bool) -> Bool:
        stage_R = np.arange(is_named_R.size) // (self.job.dp * self.job.tp)
        of_stages_R = np.isin(stage_R, stage_R[is_named_R]) & ~is_named_R
        return of_stages_R if of_stages_R.any() else ~is_named_R

    def _lengthens(self, ranks: tuple[int, ...], span: slice) -> bool:
        calm = replace(self.job, faults=())
        with_S = step_ns(replace(calm, recorded_on=ranks))[span]
        without_S = step_ns(replace(calm, recorded=""))[span]
        return float(np.median(with_S / without_S)) >= LEAST
