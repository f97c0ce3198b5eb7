"""What-if analysis of a run of the store: asks for the operations, replays them."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from diagnosis.whatif.analysis import Prepared, WhatIf, prepare, what_if
from diagnosis.whatif.operations import NotAnswerable, Sizes, dense
from diagnosis.whatif.recorded import recorded_operations
from ingest.readers import straggler_analysis
from ingest.sandbox import Stop
from ingest.store import Run

MOST_SPANS = 2_000_000
"""Spans of a recorded job looked at, of the ranks that stand for cells: the newest steps."""

MOST_INFIDELITY = 0.05
"""Share by which measured and replayed steps may differ before that is told (2505.05713)."""

_FEWEST_STEPS = 3
"""With as many steps the first of an attempt, which warms up, is left out."""


@dataclass(frozen=True)
class Answer:
    """The metrics, what a timeline of them needs, and everything that was assumed."""

    metrics: WhatIf
    prepared: Prepared
    notes: tuple[str, ...]


def whatif_of(run: Run, attempt: int | None = None, stop: Stop | None = None) -> Answer:
    """Ask and replay one attempt (default: the newest); raises NotAnswerable and UserError."""
    wanted = run.newest_attempt if attempt is None else attempt
    layout = run.layout(wanted)
    if layout is None:
        raise NotAnswerable(
            "the layout of the job is unknown, so nobody knows which ranks are stages of one "
            "pipeline and which are replicas; a StragglerAnalysis trace needs its yaml of sizes "
            "beside it, a recorded job its parallel sizes"
        )
    sizes = Sizes(layout.size("dp"), layout.size("pp"), layout.size("cp"))
    rows, notes = _operations(run, wanted, sizes, stop)
    prepared = prepare(dense(rows, sizes))
    metrics = what_if(prepared)
    notes = (*notes, *prepared.ops.notes, *_fidelity_note(metrics.fidelity))
    return Answer(metrics, prepared, notes)


def _fidelity_note(fidelity: float) -> tuple[str, ...]:
    """What a replay that is far off means; the paper leaves such jobs out."""
    if abs(fidelity) <= MOST_INFIDELITY:
        return ()
    if fidelity > 0:
        return (
            f"Measured steps are {100 * fidelity:.0f} % longer than replayed ones: gaps between "
            "operations (launches, pauses, waiting for data) cost that, and no number here has it.",
        )
    return (
        f"Measured steps are {-100 * fidelity:.0f} % shorter than replayed ones: operations ran "
        "beside each other that the replay puts one after the other.",
    )


def _operations(
    run: Run, attempt: int, sizes: Sizes, stop: Stop | None
) -> tuple[pa.Table, tuple[str, ...]]:
    if run.info["source"] == straggler_analysis.NAME:
        return run.ask("whatif_ops", attempt=attempt, stop=stop), ()
    first, last, notes = _steps(run, attempt)
    spans = run.ask("whatif_spans", attempt=attempt, step_min=first, step_max=last, stop=stop)
    rows, assumed = recorded_operations(spans, sizes)
    return rows, (*notes, *assumed)


def _steps(run: Run, attempt: int) -> tuple[int, int, tuple[str, ...]]:
    """First and last step to look at: the newest that all cells have finished."""
    found = run.index_rows(
        "WITH cells AS (SELECT min(rank) AS rank FROM ranks WHERE attempt = $attempt"
        " GROUP BY pp, dp)"
        " SELECT step, CAST(sum(num_spans) AS BIGINT) AS num_spans FROM step_rollup"
        " SEMI JOIN cells USING (rank) WHERE attempt = $attempt AND step >= 0"
        " GROUP BY step HAVING bool_and(finished) AND count(*) = (SELECT count(*) FROM cells)"
        " ORDER BY step DESC",
        attempt=attempt,
    )
    if not found:
        raise NotAnswerable("no step is finished on all ranks yet, so there is nothing to replay")
    taken, num_spans = 0, 0
    while taken < len(found) and (num_spans := num_spans + found[taken]["num_spans"]) <= MOST_SPANS:
        taken += 1
    taken = max(taken, 1)
    notes = []
    if taken == len(found) >= _FEWEST_STEPS:
        taken -= 1
        notes.append(f"The first step ({found[-1]['step']}) is left out: it warms up.")
    elif taken < len(found):
        notes.append(f"Only the newest {taken} of {len(found)} finished steps are looked at.")
    return found[taken - 1]["step"], found[0]["step"], tuple(notes)
