"""sequence_imbalance: micro-batches hold uneven work, so that the slow rank moves with each.

Attention costs the square of a sequence's length. A long one makes the forward AND the backward of
its micro-batch long, on whichever rank has it: the two grow together, though they run at different
times, and work spreads inside a rank. A slow rank or stage has long micro-batches throughout,
pauses hit one direction only, and noise hits each by itself. What both directions share is the
root of their covariance; noise of either alone drops out of it.

What is usual of a rank, a virtual stage and a place in the step is taken out first (the median over
the steps), then what all micro-batches of a rank's step share. Where micro-batches are not known
apart, whole steps of replicas are compared, each with its own running median and the other
replicas.

Where launches are asynchronous, ranks wait for the others inside the last backward of a step: it is
left out, and for the cost set to what its forward lets expect.

What it costs: replicas wait for the one whose pipeline takes longest; 1F1B is replayed with the
recorded works, and with even ones.

Source: what-if study (2505.05713): correlation of at least 0.9, here TOGETHER with spread,
because alone it is high for slow workers, too; work ~ a N + b sum(l^2). Assumes: the first rank of
a replica stands for it. Known false positives: uneven work for another reason than lengths (routed
experts, dynamic shapes). Blind spots: a cost below 3 %; more than 64 replicas are sampled, so the
cost is a lower bound. Cost: reads forwards and backwards of the newest 100 steps of 64 ranks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from diagnosis.findings import Evidence, Finding, NotEnoughData, Verdict
from diagnosis.loading.gain import with_gain
from diagnosis.statistics.episodes import MIN_VOTES, Episode, episodes
from diagnosis.statistics.phase_findings import Lost, Words, finding_of, steps_missing
from diagnosis.statistics.phase_times import MIN_EXCESS, PhaseTimes, middle, phase_times
from diagnosis.statistics.pipeline_time import pipeline_time
from diagnosis.statistics.rank_tables import Bools, Floats, Ints
from diagnosis.statistics.running_median import running_medians

NAME = "sequence_imbalance"
KINDS = ("sequence_imbalance",)
QUESTIONS = ("microbatch_work", "rank_phases", "rank_places", "batch_lengths")

MIN_CORRELATION = 0.9
"""Of forward and backward of a micro-batch: the published rule."""

MIN_SPREAD = 0.03
"""Votes begin at this shared spread and are full at twice it; a micro-batch of equal work differs
by about 1 %."""

MIN_COST = MIN_EXCESS
"""Of a step."""

_KNOWN_SHARE = 0.9
"""CPU time is the measure where at least this share of the rows has it."""


@dataclass(frozen=True)
class _Batches:
    """Work of micro-batches. R ranks, S steps, B places in a step (virtual stage, micro-batch)."""

    rank_R: Ints
    step_S: Ints
    forward_RSB: Floats  # ms
    backward_RSB: Floats
    tokens_RS: Floats
    sum_sq_RS: Floats
    microbatch_B: Ints  # -1: micro-batches are not separate
    waits_B: Bools  # whose backward held waiting; it is set to what its forward lets expect

    @property
    def are_separate(self) -> bool:
        """Whether there are several micro-batches in a step, and known."""
        return bool(np.unique(self.microbatch_B).size > 1)

    @property
    def both_RSB(self) -> Floats:
        """Forward and backward together, ms."""
        total: Floats = self.forward_RSB + self.backward_RSB
        return total


def detect(tables: Mapping[str, pa.Table], attempt: int) -> Verdict:
    """Verdict on the steps in `tables`: answers of QUESTIONS for one attempt and range of steps."""
    times = phase_times(tables)
    if missing := steps_missing(NAME, times.step_S.size):
        return Verdict(NAME, not_enough=missing)
    batches = _own_work(tables["microbatch_work"], times)
    if batches is None or batches.step_S.size < MIN_VOTES:
        reason = (
            "Forwards and backwards were not recorded apart, or hold waiting for others: whether "
            "the work of micro-batches is uneven is not known."
        )
        return Verdict(NAME, not_enough=(NotEnoughData(NAME, reason),))
    relative = _relatives(batches)
    if not (np.isfinite(relative[0]) & np.isfinite(relative[1])).any():
        reason = "One micro-batch per step and too few replicas: nothing to compare one with."
        return Verdict(NAME, not_enough=(NotEnoughData(NAME, reason),))
    shared_S = _shared_spread(*relative)
    findings = []
    for episode in episodes(shared_S, MIN_SPREAD):
        finding = _finding(times, batches, relative, episode, attempt)
        findings += [with_gain(finding, tables)] if finding is not None else []
    checked = (
        f"No {'other ' if findings else ''}uneven micro-batches (forward and backward growing "
        f"together) that cost {100 * MIN_COST:.0f} % of a step."
    )
    return Verdict(NAME, tuple(findings), checked)


def uneven_since_then(tables: Mapping[str, pa.Table], times: PhaseTimes) -> list[Episode]:
    """Steps, by index, since which micro-batches hold uneven work that held even work before,
    whatever that costs. Where work is drawn again, its mean and with it all compute may rise.
    """
    batches = _own_work(tables["microbatch_work"], times)
    if batches is None or batches.step_S.size < MIN_VOTES:
        return []
    relative = _relatives(batches)
    at_S = np.searchsorted(times.step_S, batches.step_S)
    return [
        Episode(int(at_S[episode.first]), int(at_S[episode.last]), episode.excess)
        for episode in episodes(_shared_spread(*relative), MIN_SPREAD)
        if episode.first > 0
    ]


def _own_work(table: pa.Table, times: PhaseTimes) -> _Batches | None:
    """Work of micro-batches without waiting; None where it is not recorded, or waiting lies in it
    and micro-batches are not known apart.
    """
    batches = _batches(table, times)
    if batches is None or np.unique(batches.microbatch_B).size < _FEWEST_APART:
        return None if times.waits_hidden else batches
    last_B = batches.microbatch_B == batches.microbatch_B.max()
    ratio_RSB = batches.backward_RSB / batches.forward_RSB
    usual_RSB = _nan(np.nanmedian, ratio_RSB[:, :, ~last_B], 2)
    beyond_RSB = ratio_RSB / usual_RSB > 1 + _WAITS_FROM
    if beyond_RSB[:, :, last_B].mean() < _WAITS_OFTEN + beyond_RSB[:, :, ~last_B].mean():
        return batches
    as_forward_RSB = batches.forward_RSB * usual_RSB
    least_RSB = np.minimum(batches.backward_RSB, as_forward_RSB)
    own_RSB = np.where(last_B, least_RSB, batches.backward_RSB)
    return replace(batches, backward_RSB=own_RSB, waits_B=last_B)


_FEWEST_APART = 3
"""Micro-batches, to compare the last with the others."""

_WAITS_FROM, _WAITS_OFTEN = 0.1, 0.2
"""The last backward of a step holds waiting where it is longer than the forward by a tenth more
than in the other micro-batches, in a fifth more of the steps than these are."""


def _relatives(batches: _Batches) -> list[Floats]:
    """Relative work of forwards and backwards, where no waiting lies in either."""
    works = (batches.forward_RSB, batches.backward_RSB)
    return [_relative(np.where(batches.waits_B, np.nan, work_RSB)) for work_RSB in works]


def _batches(table: pa.Table, times: PhaseTimes) -> _Batches | None:
    """Dense arrays of the finished steps; micro-batches where they are known apart, else whole
    steps.
    """
    columns = {name: _column(table, name) for name in table.column_names}
    keep = np.isin(columns["step"], times.step_S) & np.isin(columns["rank"], times.ranks.rank_R)
    if (named := columns["microbatch"] >= 0).any():
        keep &= named
    if not keep.any():
        return None
    columns = {name: values[keep] for name, values in columns.items()}
    rank_R, row = np.unique(columns["rank"].astype(np.int64), return_inverse=True)
    step_S, column = np.unique(columns["step"].astype(np.int64), return_inverse=True)
    slots = np.stack([columns["chunk"], columns["microbatch"]])
    places, slot = np.unique(slots, axis=1, return_inverse=True)
    shape = rank_R.size, step_S.size, places.shape[1]

    def spread(values: Floats) -> Floats:
        cells = np.full(shape, np.nan)
        cells[row, column, slot.reshape(-1)] = values
        return cells

    forward, backward = _work(columns, "forward", times), _work(columns, "backward", times)
    return _Batches(
        rank_R,
        step_S,
        spread(forward),
        spread(backward),
        _of_step(spread(columns["tokens"])),
        _of_step(spread(columns["sum_sq_len"])),
        places[1].astype(np.int64),
        np.zeros(shape[2], np.bool_),
    )


def _column(table: pa.Table, name: str) -> Floats:
    return np.asarray(table.column(name).cast(pa.float64()).to_numpy(), np.float64)


def _of_step(values_RSB: Floats) -> Floats:
    """The value that all places of a step have in common."""
    known_RS = np.isfinite(values_RSB).any(axis=2)
    found_RS = np.full(known_RS.shape, np.nan)
    found_RS[known_RS] = np.nanmax(values_RSB[known_RS], axis=-1)
    return found_RS


def _work(columns: Mapping[str, Floats], name: str, times: PhaseTimes) -> Floats:
    cpu, wall = columns[f"{name}_cpu_ms"], columns[f"{name}_ms"]
    by_cpu = times.ranks.on_cpu and (cpu > 0).sum() >= _KNOWN_SHARE * np.isfinite(wall).sum()
    chosen = cpu if by_cpu else wall
    return np.where(chosen > 0, chosen, np.nan)


def _relative(work_RSB: Floats) -> Floats:
    """Work beyond what is usual of its place and shared by the rank's step, as a share."""
    if work_RSB.shape[2] > 1:
        usual_RSB = work_RSB / _nan(np.nanmedian, work_RSB, 1)
        relative: Floats = usual_RSB / _nan(np.nanmean, usual_RSB, 2) - 1
        return relative
    if work_RSB.shape[0] < 2:
        return np.full(work_RSB.shape, np.nan)
    own_RSB = (work_RSB[:, :, 0] / running_medians(work_RSB[:, :, 0]))[:, :, None]
    against: Floats = own_RSB / _nan(np.nanmean, own_RSB, 0) - 1
    return against


def _nan(reduce: Callable[..., Floats], values: Floats, axis: int) -> Floats:
    """nanmedian or nanmean along an axis, kept; NaN where nothing is known, without a warning."""
    known = np.isfinite(values).any(axis=axis, keepdims=True)
    filled = np.where(known, values, 1.0)
    return np.where(known, reduce(filled, axis=axis, keepdims=True), np.nan)


def _shared_spread(forward_RSB: Floats, backward_RSB: Floats) -> Floats:
    """Spread that both directions share, by step: root of their covariance, 0 where negative."""
    product_RSB = forward_RSB * backward_RSB
    means_S = _nan(np.nanmean, product_RSB.transpose(1, 0, 2).reshape(product_RSB.shape[1], -1), 1)
    shared: Floats = np.sqrt(np.maximum(means_S[:, 0], 0.0))
    return shared


def _finding(
    times: PhaseTimes, batches: _Batches, relative: list[Floats], episode: Episode, attempt: int
) -> Finding | None:
    span = slice(episode.first, episode.last + 1)
    forward, backward = (work_RS[:, span] for work_RS in relative)
    correlation = middle(
        np.array([_correlation(f, b) for f, b in zip(forward, backward, strict=True)])
    )
    lost_S, work_S = _lost(batches, times)
    at_S = np.searchsorted(times.step_S, batches.step_S)
    share = middle((lost_S / times.window_S[at_S])[span])
    if not (correlation >= MIN_CORRELATION and share >= MIN_COST):
        return None
    in_run = Episode(int(at_S[episode.first]), int(at_S[episode.last]), share)
    shown = int(work_S[episode.first])
    row = int(np.flatnonzero(times.ranks.rank_R == batches.rank_R[shown])[0])
    lengths = _explained(batches, span)
    by_lengths = np.isfinite(lengths) and lengths >= MIN_CORRELATION
    words = _words("high" if by_lengths or batches.are_separate else "medium")
    finding = finding_of(times, Lost((), in_run, share, row), attempt, words)
    more = _evidence(finding, correlation, episode.excess, lengths, batches.are_separate)
    return replace(finding, evidence=(*finding.evidence, *more))


def _correlation(forward_SB: Floats, backward_SB: Floats) -> float:
    known = np.isfinite(forward_SB) & np.isfinite(backward_SB)
    f, b = forward_SB[known], backward_SB[known]
    if f.size < MIN_VOTES or not (f.std() > 0 and b.std() > 0):
        return float("nan")
    return float(np.corrcoef(f, b)[0, 1])


def _lost(batches: _Batches, times: PhaseTimes) -> tuple[Floats, Ints]:
    """By step: ms lost to uneven work, and the row of the replica with most of it."""
    level_RS = running_medians(_of_all_places(batches.both_RSB))  # slow for good is not uneven
    stages = max(int(times.ranks.coords_R["pp"].max()) + 1, 1) if batches.are_separate else 1
    forward = _by_microbatch(batches, batches.forward_RSB) / level_RS
    backward = _by_microbatch(batches, batches.backward_RSB) / level_RS
    takes_RS = pipeline_time(forward, backward, stages)
    ideal_S = pipeline_time(_even(forward), _even(backward), stages)[0]
    most_S = np.where(np.isfinite(takes_RS), takes_RS, -np.inf).argmax(axis=0)
    longest_S = np.take_along_axis(takes_RS, most_S[None], axis=0)[0]
    usual_ms_S = _nan(np.nanmedian, level_RS, 0)[0] * _wall_per_work(batches, times)
    return np.maximum(longest_S - ideal_S, 0.0) * usual_ms_S, most_S.astype(np.int64)


def _of_all_places(work_RSB: Floats) -> Floats:
    total_RS = np.nansum(work_RSB, axis=2)
    return np.where(total_RS > 0, total_RS, np.nan)


def _by_microbatch(batches: _Batches, work_RSB: Floats) -> Floats:
    """(M, R, S): virtual stages of a rank together."""
    micro = np.unique(batches.microbatch_B)
    return np.stack([_of_all_places(work_RSB[:, :, batches.microbatch_B == m]) for m in micro])


def _even(work_MRS: Floats) -> Floats:
    """The mean over micro-batches and replicas, the same for all of them."""
    num_M, num_R, num_S = work_MRS.shape
    mean_S = _nan(np.nanmean, work_MRS.reshape(num_M * num_R, num_S), 0)
    return np.broadcast_to(mean_S[None], (num_M, 1, num_S))


def _wall_per_work(batches: _Batches, times: PhaseTimes) -> float:
    """Wall time of compute per ms of work: work may be CPU time."""
    rows = np.searchsorted(times.ranks.rank_R, batches.rank_R)
    busy = times.phases["compute"][rows] + times.phases["stretch"][rows]
    work = times.phases["compute"][rows]
    ratio = middle(busy / np.where(work > 0, work, np.nan))
    return ratio if np.isfinite(ratio) else 1.0


def _explained(batches: _Batches, span: slice) -> float:
    """Correlation of a rank's work with a N + b sum(l^2), best a and b; NaN where unknown."""
    work_RS = np.nansum(batches.both_RSB, axis=2)[:, span]
    work_RS = work_RS / _nan(np.nanmedian, work_RS, 1)
    parts = [
        values[:, span] / _nan(np.nanmedian, values[:, span], 1)
        for values in (batches.tokens_RS, batches.sum_sq_RS)
    ]
    known = np.isfinite(work_RS) & np.isfinite(parts[0]) & np.isfinite(parts[1])
    if known.sum() < MIN_VOTES:
        return float("nan")
    terms = np.stack([part[known] for part in parts], axis=1)
    work = work_RS[known]
    fitted = terms @ np.linalg.lstsq(terms, work, rcond=None)[0]
    if not (fitted.std() > 1e-9 and work.std() > 0):
        return float("nan")
    return float(np.corrcoef(fitted, work)[0, 1])


def _evidence(
    finding: Finding, correlation: float, spread: float, lengths: float, are_separate: bool
) -> tuple[Evidence, ...]:
    params, view = finding.evidence[0].params, finding.evidence[0].view
    what, where = ("a micro-batch", "within the steps of one rank")
    if not are_separate:
        what, where = ("a rank's step", "among replicas, on a different one each time")
    evidence = [
        Evidence(
            f"Forward and backward of {what} grow together: correlation {correlation:.2f}, the "
            "median of the ranks (noise of either alone: 0).",
            round(correlation, 4),
            "correlation",
            "microbatch_work",
            params,
            view,
        ),
        Evidence(
            f"What they share spreads by {100 * spread:.0f} % {where}.",
            round(spread, 4),
            "share",
            "microbatch_work",
            params,
            view,
        ),
    ]
    if np.isfinite(lengths):
        evidence.append(
            Evidence(
                f"Work follows a N + b sum(l^2) of the tokens given: correlation {lengths:.2f}.",
                round(lengths, 4),
                "correlation",
                "microbatch_work",
                params,
                view,
            )
        )
    return tuple(evidence)


def _words(confidence: str) -> Words:
    return Words(
        "sequence_imbalance",
        "Micro-batches are uneven",
        "to micro-batches with more work than others",
        "Micro-batches hold uneven work, as with sequences of different lengths: whoever has the "
        "longest one makes the others wait, another rank each time.",
        (
            "Work that differs for another reason than lengths: experts that are given uneven "
            "numbers of tokens, dynamic shapes.",
        ),
        "Balance the sum of squared sequence lengths over replicas and micro-batches (sort or pack "
        "by it within the global batch), or cut long sequences.",
        confidence=confidence,
    )
