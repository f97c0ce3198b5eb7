"""How strong a fault must be to lengthen steps by a given factor, found by simulating the job.

A loud fault makes the steps it hits at least 1.5 times as long, a quiet one 1.15, a masked one
1.05.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from sample_traces.generate.durations import Ns
from sample_traces.generate.faults import KINDS, SyntheticFault
from sample_traces.generate.job import SyntheticJob
from sample_traces.generate.simulation.draw import draw
from sample_traces.generate.simulation.replay import replay

DOSES = {"loud": 1.5, "quiet": 1.15, "masked": 1.05}
"""Least step time with the fault / without it."""

_ROOM = 1.1
"""A dose may lengthen steps by this much more than the least."""
_MOST_TRIES = 60


def step_ns(job: SyntheticJob) -> Ns:
    """How long each completed step of the job takes, from gradient norm to gradient norm."""
    ended_S: Ns = replay(job, draw(job), 0).normed[:, 0, 0, 0]
    lengths_S: Ns = ended_S.copy()
    lengths_S[1:] -= ended_S[:-1]
    return lengths_S


def slowdown(job: SyntheticJob, fault: SyntheticFault, healthy_S: Ns) -> float:
    """How many times longer the steps it hits take with this fault alone than without it.

    `healthy_S`: without it. What a step's end delays counts, too, though the next step pays it.
    """
    num_hit = sum(fault.hits(step) for step in range(job.num_steps))
    longer_ns = float((step_ns(replace(job, faults=(fault,))) - healthy_S).sum())
    return 1 + longer_ns / num_hit / float(healthy_S.mean())


def dosed(job: SyntheticJob, fault: SyntheticFault, least: float) -> SyntheticFault:
    """The fault with the dose that makes the steps it hits `least` times as long, or little more.

    Raises ValueError where no dose does.
    """
    healthy_S = step_ns(replace(job, faults=()))
    floor, unit = (1.0, 1.0) if KINDS[fault.kind].dose == "x" else (0.0, 100.0)

    def planted(strength: float) -> SyntheticFault:
        return replace(fault, dose=floor + unit * strength)

    strength = dose_reaching(lambda at: slowdown(job, planted(at), healthy_S), least)
    if strength is None:
        raise ValueError(f"no dose of {fault.kind} makes steps {least} times as long")
    return planted(strength)


def dose_reaching(slowdown_at: Callable[[float], float], least: float) -> float | None:
    """The strength at which a slowdown that grows with it is `least` or little more."""
    low, high, enough = 0.0, 1.0, False
    for _ in range(_MOST_TRIES):
        at = (low + high) / 2 if enough else high
        reached = slowdown_at(at)
        if least <= reached <= 1 + (least - 1) * _ROOM:
            return at
        if reached > least:
            high, enough = at, True
        elif enough:
            low = at
        else:
            low, high = high, 2 * high
    return None
