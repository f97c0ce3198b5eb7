"""What-if analysis of a run of the store: asks for the operations, replays them."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from diagnosis.whatif.analysis import Prepared, WhatIf, prepare, what_if
from diagnosis.whatif.operations import NotAnswerable, Sizes, dense
from diagnosis.whatif.recorded import recorded_operations
from ingest.readers import format_facts
from ingest.run import Run
from ingest.stopping import Interrupted, Stop

MOST_SPANS = 1_500_000
"""Spans of a recorded job looked at, of all ranks: the newest steps. Of 4,096 ranks these are some
five steps, what the search for pauses needs at least.
"""

MOST_INFIDELITY = 0.05
"""Share by which measured and replayed steps may differ before that is told (2505.05713)."""

_FEWEST_STEPS = 3
"""With as many steps the first of an attempt, which warms up, is left out."""

Steps = tuple[int, int]
"""First and last, both included."""
_ALL_STEPS: Steps = (0, 2**62)


@dataclass(frozen=True)
class Answer:
    """The metrics, what a timeline of them needs, and everything that was assumed."""

    attempt: int
    metrics: WhatIf
    prepared: Prepared
    notes: tuple[str, ...]


@dataclass(frozen=True)
class Refusal:
    """Why a run does not allow the analysis, in one sentence."""

    reason: str


def whatif_or_why_not(
    run: Run, attempt: int | None = None, steps: Steps | None = None, stop: Stop | None = None
) -> Answer | Refusal:
    """As `whatif_of`; what the data do not allow is an answer, too, and worth keeping."""
    try:
        return whatif_of(run, attempt, steps, stop)
    except NotAnswerable as error:
        return Refusal(str(error))


def can_tell(run: Run) -> bool:
    """Whether the newest attempt seems to have what the analysis needs: a layout, and forwards,
    with stages those of several micro-batches. `whatif_of` looks closer, and says what is missing.
    """
    layout = run.layout()
    if layout is None:
        return False
    found = run.index_rows(
        "SELECT 1 FROM kind_rollup WHERE attempt = $attempt AND kind = 'forward'"
        " AND num_spans >= $least LIMIT 1",
        attempt=run.newest_attempt,
        least=2 if layout.size("pp") > 1 else 1,
    )
    return bool(found) or format_facts(run.info["source"]).is_operation_trace


def stop_here(stop: Stop | None) -> None:
    """Raise Interrupted where whoever asked has left: replays look here, queries by themselves."""
    if stop is not None and stop.called:
        raise Interrupted("the replay was given up: nobody waits for it any more")


def whatif_of(
    run: Run, attempt: int | None = None, steps: Steps | None = None, stop: Stop | None = None
) -> Answer:
    """Ask and replay one attempt (default: the newest), or only some of its steps, first and last
    included; raises NotAnswerable and UserError.
    """
    wanted = attempt
    if wanted is None:
        wanted = run.newest_attempt if steps is None else run.attempt_with(steps[0])
    layout = run.layout(wanted)
    if layout is None:
        raise NotAnswerable(
            "the layout of the job is unknown, so nobody knows which ranks are stages of one "
            "pipeline and which are replicas; a StragglerAnalysis trace needs its yaml of sizes "
            "beside it, a recorded job its parallel sizes"
        )
    sizes = Sizes(layout.size("dp"), layout.size("pp"), layout.size("cp"))
    rows, notes = _operations(run, wanted, sizes, steps, stop)
    stop_here(stop)
    prepared = prepare(dense(rows, sizes))
    stop_here(stop)
    metrics = what_if(prepared)
    notes = (*notes, *prepared.ops.notes, *_fidelity_note(metrics.fidelity))
    return Answer(wanted, metrics, prepared, notes)


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
    run: Run, attempt: int, sizes: Sizes, chosen: Steps | None, stop: Stop | None
) -> tuple[pa.Table, tuple[str, ...]]:
    if format_facts(run.info["source"]).is_operation_trace:
        low, high = chosen or _ALL_STEPS
        return run.ask("whatif_ops", attempt=attempt, step_min=low, step_max=high, stop=stop), ()
    first, last, notes = _steps(run, attempt, chosen)
    spans = run.ask("whatif_spans", attempt=attempt, step_min=first, step_max=last, stop=stop)
    rows, assumed = recorded_operations(spans, sizes)
    return rows, (*notes, *assumed)


def _steps(run: Run, attempt: int, chosen: Steps | None) -> tuple[int, int, tuple[str, ...]]:
    """First and last step to look at: the newest (of the chosen) that all ranks have finished."""
    low, high = chosen or _ALL_STEPS
    found = run.index_rows(
        "WITH recorded AS (SELECT DISTINCT rank FROM step_rollup WHERE attempt = $attempt)"
        " SELECT step, CAST(sum(num_spans) AS BIGINT) AS num_spans FROM step_rollup"
        " WHERE attempt = $attempt AND step BETWEEN $low AND $high"
        " GROUP BY step HAVING bool_and(finished) AND count(*) = (SELECT count(*) FROM recorded)"
        " ORDER BY step DESC",
        attempt=attempt,
        low=low,
        high=high,
    )
    if not found:
        which = "no step" if chosen is None else f"none of the steps {low} to {high}"
        raise NotAnswerable(f"{which} is finished on all ranks yet, so there is nothing to replay")
    taken, num_spans = 0, 0
    while taken < len(found) and (num_spans := num_spans + found[taken]["num_spans"]) <= MOST_SPANS:
        taken += 1
    taken = max(taken, 1)
    notes = []
    if chosen is None and taken == len(found) >= _FEWEST_STEPS:
        taken -= 1
        notes.append(f"The first step ({found[-1]['step']}) is left out: it warms up.")
    elif taken < len(found):
        notes.append(f"Only the newest {taken} of {len(found)} finished steps are looked at.")
    return found[taken - 1]["step"], found[0]["step"], tuple(notes)
