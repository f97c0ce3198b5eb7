"""What the page Data shows: who waits for batches, what workers do, the mixture, their memory, and
how evenly sequences are dealt.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import isfinite
from statistics import median
from typing import Any

import numpy as np

from diagnosis.loading.balance import balance_of
from diagnosis.loading.gain import sentence
from diagnosis.loading.redundant import QUESTION as REDUNDANT
from diagnosis.loading.redundant import sentences
from diagnosis.loading.workers import QUESTION, why_slow
from ingest.run import Run
from ingest.stopping import Stop

MOST_ROWS = 128
MOST_WAITS = 32
"""Ranks of a job with more than MOST_ROWS, those that wait longest: the others are alike."""

Rows = tuple[dict[str, Any], ...]


@dataclass(frozen=True)
class DataLoading:
    """Plain values, in order of what costs most. `waits`: by rank; `workers`: by worker and source,
    `slower`: to the median of the same source; `sources`: the mixture; `memory`: by worker;
    `standby`: by rank. `num_*`: how many there are, of which these are the first; waits are of
    `num_ranks`, or all there are. `why`: a sentence on the loader of the rank that waits longest;
    None unknown. `redundant`: sentences on batches that several ranks read. `dealing`: None where
    the job states no lengths.
    """

    waits: Rows
    num_ranks: int
    workers: Rows
    num_workers: int
    sources: Rows
    memory: Rows
    num_memory: int
    standby: Rows
    num_standby: int
    why: str | None
    redundant: tuple[str, ...]
    dealing: Dealing | None


@dataclass(frozen=True)
class Dealing:
    """How evenly the sequences of steps were dealt. `microbatches`, `replicas`: the longest of a
    step to the mean. `saves`: share of the time that dealing them again would save, where replicas
    wait for each other at the end of a step, after each micro-batch, or in a pipeline (None: there
    is none). `rows`: replicas of `step`, the longest first: `rank`, `drawn_ms`, `dealt_ms`
    and `measured_ms` (None: it cannot be dealt again, unknown). `error`: of the model of costs.
    """

    microbatches: float
    replicas: float
    saves: dict[str, float | None]
    error: float
    num_steps: int
    step: int
    rows: Rows
    num_rows: int
    sentence: str


def data_loading_of(
    run: Run,
    attempt: int | None,
    steps: tuple[int, int] | None = None,
    stop: Stop | None = None,
) -> DataLoading:
    """Of the steps (both included); of all without."""
    wanted: dict[str, Any] = {"attempt": run.newest_attempt if attempt is None else attempt}
    within = wanted if steps is None else wanted | {"step_min": steps[0], "step_max": steps[1]}
    num_ranks = sum(info["attempt"] == wanted["attempt"] for info in run.ranks)
    top = MOST_ROWS if num_ranks <= MOST_ROWS else MOST_WAITS
    waits = run.ask("data_wait", **within, top=top, stop=stop).to_pylist()
    work = run.ask(QUESTION, **within, stop=stop)
    workers = _slowest(work.to_pylist())
    memory = run.ask("loader_memory", **wanted, stop=stop).to_pylist()
    growing = sorted(_one_each(memory), key=_growth, reverse=True)
    standby = _without_infinities(run.ask("loader_standby", **within, stop=stop).to_pylist())
    standby.sort(key=lambda row: (-(row["end_samples"] or 0), -(row["end_age_s"] or 0)))
    why = why_slow({QUESTION: work}, waits[0]["rank"]) if waits else None
    waiting = tuple(row for row in waits if row["data_wait_ms"] or row["data_fetch_ms"])
    return DataLoading(
        waits=waiting,
        num_ranks=num_ranks if len(waiting) == top else len(waiting),
        workers=tuple(workers[:MOST_ROWS]),
        num_workers=len(workers),
        sources=tuple(_without_infinities(run.ask("source_mix", **within, stop=stop).to_pylist())),
        memory=tuple(growing[:MOST_ROWS]),
        num_memory=len(growing),
        standby=tuple(standby[:MOST_ROWS]),
        num_standby=len(standby),
        why=None if why is None else why.sentence,
        redundant=sentences(run.ask(REDUNDANT, **within, stop=stop).to_pylist()),
        dealing=_dealing(run, within, stop),
    )


def _dealing(run: Run, within: dict[str, Any], stop: Stop | None) -> Dealing | None:
    lengths = run.ask("batch_lengths", **within, stop=stop)
    if not lengths.num_rows:
        return None
    attempt = {"attempt": within["attempt"]}
    tables = {
        "batch_lengths": lengths,
        "microbatch_work": run.ask("microbatch_work", **within, stop=stop),
        "rank_places": run.ask("rank_places", **attempt, stop=stop),
    }
    balance = balance_of(tables)
    if balance is None:
        return None
    shown = balance.steps[-1]
    drawn_RM = shown.drawn_RM
    columns = {
        "rank": balance.rank_R,
        "drawn_ms": drawn_RM.sum(axis=1),
        "dealt_ms": (drawn_RM * np.nan if shown.dealt_RM is None else shown.dealt_RM).sum(axis=1),
        "measured_ms": shown.measured_RM.sum(axis=1),
    }
    by_rank = zip(*(values.tolist() for values in columns.values()), strict=True)
    rows = _without_infinities(
        dict(zip(columns, row, strict=True)) for row in sorted(by_rank, key=lambda row: -row[1])
    )
    return Dealing(
        balance.of_microbatches,
        balance.of_replicas,
        {name: balance.gain(name) for name in ("at_step", "at_microbatch", "in_pipeline")},
        balance.model.error,
        len(balance.steps),
        shown.step,
        tuple(rows[:MOST_ROWS]),
        len(rows),
        sentence(balance),
    )


def _without_infinities(rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows with None for what is not finite, such as a share that the job computed by dividing
    by 0: JSON has no such numbers.
    """
    return [
        {
            name: None if isinstance(value, float) and not isfinite(value) else value
            for name, value in row.items()
        }
        for row in rows
    ]


def _slowest(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Those that stand out from their source first."""
    by_source = defaultdict[str, list[float]](list)
    for row in rows:
        by_source[row["source"]].append(row["sample_ms"])
    usual = {source: median(values) for source, values in by_source.items()}
    found = [row | {"slower": row["sample_ms"] / max(usual[row["source"]], 1e-9)} for row in rows]
    return sorted(found, key=lambda row: (-row["slower"], row["rank"], row["worker"]))


def _one_each(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """One row a worker: with shared pages divided where that was seen often enough."""
    best: dict[tuple[int, int], dict[str, Any]] = {}
    for row in rows:
        key = row["rank"], row["pid"]
        if None not in (row["begin_mb"], row["end_mb"]) and (key not in best or row["is_shared"]):
            best[key] = row
    return list(best.values())


def _growth(row: dict[str, Any]) -> float:
    return float(row["end_mb"] - row["begin_mb"])
