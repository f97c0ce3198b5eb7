"""Sums over the runs of a fleet: slowdowns, rank-hours by cause and over time, MFU by model."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from diagnosis.fleet.summary import Summary

S_EDGES = (1.03, 1.1, 1.25, 1.5, 2.0, 3.0)
"""Bins of S: below 1.03 a job counts as healthy, from 1.1 on as straggling (arXiv 2505.05713)."""
STRAGGLING_S = 1.1

MOST_MODELS = 50


@dataclass(frozen=True)
class Bin:
    """Runs with low <= S < high; None: no bound."""

    low: float | None
    high: float | None
    num_runs: int
    rank_hours: float


@dataclass(frozen=True)
class Slowdowns:
    """How S is distributed over the runs where it is known.

    `median`, `p90`: None without such runs. `lost_share`: of the rank-hours of these runs, what a
    replay without stragglers saves (1 - 1/S). `unknown`: why S is not known -> number of runs;
    without self-tests, which have none.
    """

    bins: tuple[Bin, ...]
    num_runs: int
    num_straggling: int
    median: float | None
    p90: float | None
    lost_share: float | None
    unknown: dict[str, int]


@dataclass(frozen=True)
class Cause:
    """Rank-hours lost to a kind of finding, or (`is_outside`) outside kept steps."""

    cause: str
    is_outside: bool
    rank_hours: float
    share: float
    num_runs: int


@dataclass(frozen=True)
class ModelRow:
    """Runs of one model; MFU as median, least and greatest of its runs, None not known."""

    model: str
    parameters: float | None
    num_runs: int
    rank_hours: float
    num_mfu: int
    mfu: float | None
    mfu_low: float | None
    mfu_high: float | None
    S: float | None


def slowdowns(runs: Iterable[Summary]) -> Slowdowns:
    """Distribution of S."""
    known: list[tuple[float, float]] = []
    unknown: dict[str, int] = defaultdict(int)
    for run in runs:
        if run.S is not None:
            known.append((run.S, run.rank_hours or 0.0))
        elif run.no_S:
            unknown[run.no_S] += 1
    values = sorted(S for S, _ in known)
    hours = sum(own for _, own in known)
    lost = sum(own * (1 - 1 / S) for S, own in known if S > 1)
    return Slowdowns(
        bins=_bins(known),
        num_runs=len(values),
        num_straggling=sum(S >= STRAGGLING_S for S in values),
        median=statistics.median(values) if values else None,
        p90=_p90(values),
        lost_share=lost / hours if hours > 0 else None,
        unknown=dict(sorted(unknown.items(), key=lambda item: (-item[1], item[0]))),
    )


def _bins(known: Sequence[tuple[float, float]]) -> tuple[Bin, ...]:
    edges = (None, *S_EDGES, None)
    bins = []
    for low, high in pairwise(edges):
        own = [
            hours for S, hours in known if (low is None or low <= S) and (high is None or high > S)
        ]
        bins.append(Bin(low, high, len(own), sum(own)))
    return tuple(bins)


def _p90(ascending: Sequence[float]) -> float | None:
    """The least value that nine tenths of the values do not exceed."""
    return ascending[-(-9 * len(ascending) // 10) - 1] if ascending else None


def lost_hours(run: Summary) -> dict[tuple[str, bool], float]:
    """Rank-hours that a run lost, by (cause, whether it lies outside kept steps).

    What findings cost may overlap where it is estimated: together with the time outside kept steps
    it is at most all of the run's.
    """
    outside = sum(run.outside_hours.values())
    findings: dict[str, float] = defaultdict(float)
    for found in run.findings:
        if found.rank_hours:
            findings[found.kind] += found.rank_hours
    total = sum(findings.values())
    room = max(0.0, (run.rank_hours or 0.0) - outside)
    part = min(1.0, room / total) if total > 0 else 0.0
    lost = {(kind, False): hours * part for kind, hours in findings.items()}
    return lost | {(name, True): hours for name, hours in run.outside_hours.items() if hours > 0}


def causes(runs: Sequence[Summary]) -> tuple[Cause, ...]:
    """Rank-hours lost by cause, the greatest first; shares of those of all runs."""
    total = sum(run.rank_hours or 0.0 for run in runs)
    hours: dict[tuple[str, bool], float] = defaultdict(float)
    num_runs: dict[tuple[str, bool], int] = defaultdict(int)
    for run in runs:
        for key, lost in lost_hours(run).items():
            hours[key] += lost
            num_runs[key] += 1
    found = [
        Cause(*key, lost, lost / total if total > 0 else 0.0, num_runs[key])
        for key, lost in hours.items()
        if lost > 0
    ]
    return tuple(sorted(found, key=lambda one: (-one.rank_hours, one.cause)))


def by_model(runs: Iterable[Summary]) -> tuple[ModelRow, ...]:
    """A row for each model, the smallest first, those of unknown size last."""
    models: dict[tuple[str, float | None], list[Summary]] = defaultdict(list)
    for run in runs:
        models[run.model, run.parameters].append(run)
    rows = [_model_row(*key, own) for key, own in models.items()]
    rows.sort(key=lambda row: (row.parameters is None, row.parameters or 0.0, row.model))
    return tuple(rows[:MOST_MODELS])


def _model_row(model: str, parameters: float | None, runs: Sequence[Summary]) -> ModelRow:
    mfus = [run.mfu for run in runs if run.mfu is not None]
    slow = [run.S for run in runs if run.S is not None]
    return ModelRow(
        model,
        parameters,
        len(runs),
        sum(run.rank_hours or 0.0 for run in runs),
        len(mfus),
        statistics.median(mfus) if mfus else None,
        min(mfus, default=None),
        max(mfus, default=None),
        statistics.median(slow) if slow else None,
    )


def worst_first(runs: Mapping[str, Summary]) -> list[tuple[str, float]]:
    """Names of the runs that lost anything, with their rank-hours, the most first."""
    lost = [(name, sum(lost_hours(run).values())) for name, run in runs.items()]
    return sorted((one for one in lost if one[1] > 0), key=lambda one: (-one[1], one[0]))
