"""What a detector compares to find rare long steps: step times, or the compute of each rank.

On busy cores all ranks wait for the cores now and then, so step times vary more than compute does.
There a rank's compute shows which steps are rare, and the step time whether the job lost by it.

Shape suffixes: R ranks, S steps.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from diagnosis.statistics.hidden_waits import BORDER
from diagnosis.statistics.phase_times import MIN_EXCESS, PhaseTimes, middle
from diagnosis.statistics.rank_tables import Bools, Floats, Ints
from diagnosis.statistics.running_median import running_medians

MIN_SPIKE = MIN_EXCESS
"""Of a usual step: below S = 1.03 attribution means nothing."""

BEYOND_NOISE = 6 * 1.4826
"""And so many MAD of all steps: six sigma of Gaussian noise, none in 1e8 healthy steps."""

EXPLAINED = 0.5
"""Of what a step is longer by: the least share that the ranks' own excess makes up. Where it is
less, something else made the step long, as data that all wait for."""

MOST_FREQUENT = 0.2
"""More than a fifth of the steps are not rare."""

_MOST = 0.75
_ON_MOST = "what most ranks do makes no other step longer by more than"
_OF_OTHERS = "of the others none more than"
_OF_RANKS = "in the others no rank computes longer by more than"


@dataclass(frozen=True)
class Measure:
    """What is compared to find rare long steps."""

    long: Ints  # columns of the steps that may be
    least: float  # ms that they are longer by at least
    excess_RS: Floats  # ms of each rank beyond its own median of the steps around
    along_S: Floats  # ms of each step that ranks explain
    apart_S: Floats  # ms by which steps are compared
    of_all: bool  # most ranks do it at once
    of_compute: bool  # by what ranks compute, else by how long steps take
    others: str  # what is said of the other steps


def spike_measures(times: PhaseTimes, longer_S: Floats, retried_RS: Bools) -> list[Measure]:
    """In the order in which they are asked. `longer_S`: ms of steps beyond their running median;
    `retried_RS`: where an allocator retried, for which the others may wait inside their compute.
    """
    retried_S: Bools = np.asarray(retried_RS.any(axis=0))
    return [*_by_steps(times, longer_S, retried_S), *_by_compute(times, longer_S, retried_S)]


def _by_steps(times: PhaseTimes, longer_S: Floats, retried_S: Bools) -> list[Measure]:
    """What most ranks do first: noise of single ranks hides nothing that all do."""
    least = least_spike(times, longer_S)
    long = np.flatnonzero(longer_S >= least)
    if not _are_rare(long, times):
        return []
    excess_RS = _own_excess(times)
    excess_RS[:, retried_S] = 0.0
    if times.waits_hidden:
        other_S = _of_other_kinds(times)
        along_S = longer_S - np.maximum(other_S, _a_step_later(other_S))
        along_S[retried_S] = 0.0
        long = long[along_S[long] >= EXPLAINED * longer_S[long]]
        return [Measure(long, least, excess_RS, along_S, longer_S, True, False, _OF_OTHERS)]
    most_S, any_S = _of_most(times, excess_RS), along_pipeline(times, excess_RS)
    long = long[any_S[long] >= EXPLAINED * longer_S[long]]
    return [
        Measure(long, least, excess_RS, most_S, most_S, True, False, _ON_MOST),
        Measure(long, least, excess_RS, any_S, longer_S, False, False, _OF_OTHERS),
    ]


def _by_compute(times: PhaseTimes, longer_S: Floats, retried_S: Bools) -> list[Measure]:
    """What ranks compute, where it holds no waiting."""
    if times.hidden.get("compute", 0.0) >= BORDER or times.waits_hidden:
        return []
    compute_RS = np.nan_to_num(times.phases["compute"])
    usual_R1 = np.median(compute_RS, axis=1, keepdims=True)
    # other ranks never compute longer by half a spike, so they neither make nor hide one
    may_R = (compute_RS - usual_R1).max(axis=1) >= MIN_SPIKE / 2 * middle(times.window_S)
    excess_RS = np.zeros_like(compute_RS)
    excess_RS[may_R] = compute_RS[may_R] - running_medians(compute_RS[may_R])
    excess_RS[:, retried_S] = 0.0
    along_S = along_pipeline(times, excess_RS)
    least = least_spike(times, along_S)
    long = np.flatnonzero((along_S >= least) & (longer_S >= EXPLAINED * along_S))
    if not _are_rare(long, times):
        return []
    return [Measure(long, least, excess_RS, along_S, along_S, False, True, _OF_RANKS)]


def least_spike(times: PhaseTimes, longer_S: Floats) -> float:
    """By how many ms a step is longer at least: a share of a usual one, and beyond noise."""
    noise = BEYOND_NOISE * middle(np.abs(longer_S - middle(longer_S)))
    return max(MIN_SPIKE * middle(times.window_S), noise)


def _are_rare(long: Ints, times: PhaseTimes) -> bool:
    return 0 < long.size <= MOST_FREQUENT * times.step_S.size


def _own_excess(times: PhaseTimes) -> Floats:
    """What each rank does longer than in the steps around, ms: (R, S). A rank that saved, collected
    or waited for data after its last collective of a step keeps the others waiting in the next one,
    perhaps inside their compute.
    """
    kinds = ("compute", "stretch", "rest")
    work_RS = np.nan_to_num(np.sum([times.phases[name] for name in kinds], axis=0))
    excess_RS: Floats = work_RS - running_medians(work_RS) - _a_step_later(_of_other_kinds(times))
    return excess_RS


def _a_step_later(of_S: Floats) -> Floats:
    """What was in the step before, for each step."""
    return np.concatenate(([0.0], of_S[:-1]))


def _of_other_kinds(times: PhaseTimes) -> Floats:
    """What steps may be longer by for data, collections and saves, ms: the rank with most."""
    named_RS = np.sum(
        [np.nan_to_num(times.phases[n]) for n in ("data", "gc", "checkpoint")], axis=0
    )
    most_S: Floats = np.maximum(named_RS - running_medians(named_RS), 0.0).max(axis=0)
    return most_S


def _of_most(times: PhaseTimes, excess_RS: Floats) -> Floats:
    """What steps may be longer for what three in four ranks do at least, ms, if all stages do it:
    half of the ranks may wait for a late one.
    """
    num_stages = np.unique(times.ranks.coords_R["pp"]).size
    # not interpolated: of few ranks it would be what one of them does
    quartile_S = np.quantile(excess_RS, 1 - _MOST, axis=0, method="lower")
    most_S: Floats = num_stages * np.maximum(quartile_S, 0.0)
    return most_S


def along_pipeline(times: PhaseTimes, excess_RS: Floats) -> Floats:
    """What steps may be longer for that, ms: the rank with most of each stage, all stages."""
    pp_R = times.ranks.coords_R["pp"]
    most_PS = [excess_RS[pp_R == stage].max(axis=0) for stage in np.unique(pp_R)]
    along_S: Floats = np.maximum(most_PS, 0.0).sum(axis=0)
    return along_S
