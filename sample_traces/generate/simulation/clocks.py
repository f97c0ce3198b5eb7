"""Clocks of synthetic hosts: how far each is off, and what the run knows about it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sample_traces.generate.durations import MS, Ns
from sample_traces.generate.job import RANKS_PER_HOST, SyntheticJob

ALIGNED_OFFSET_MS, ESTIMATE_ERR_NS = 2.0, 50_000

_CLOCK_STREAM = 0xC10C
"""Keeps the draw of clocks apart from that of durations."""


@dataclass(frozen=True)
class Clocks:
    """Per rank: `offset_R` to add to its times to get rank 0's, and the estimate of it."""

    offset_R: Ns
    estimate_R: Ns
    err_ns: int
    method: str


def draw_clocks(job: SyntheticJob) -> Clocks:
    """Clocks of a job; with a clock_unaligned fault they are off by its dose and unknown."""
    random = np.random.default_rng([job.seed, _CLOCK_STREAM])
    doses_ms = [fault.dose for fault in job.faults if fault.kind == "clock_unaligned"]
    reach_ns = (doses_ms[0] if doses_ms else ALIGNED_OFFSET_MS) * MS
    offset_H = random.uniform(-reach_ns, reach_ns, job.num_hosts).astype(np.int64)
    offset_H[0] = 0
    error_H = random.uniform(-0.5, 0.5, job.num_hosts) * ESTIMATE_ERR_NS
    error_H[0] = 0
    host_R = np.arange(job.num_ranks) // RANKS_PER_HOST
    offset_R = offset_H[host_R]
    if doses_ms:
        return Clocks(offset_R, np.zeros_like(offset_R), -1, "none")
    return Clocks(
        offset_R, offset_R + error_H.astype(np.int64)[host_R], ESTIMATE_ERR_NS, "store_ping_pong"
    )
