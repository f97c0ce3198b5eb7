"""What-if analysis of a run: queries the operations and replays them."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from diagnosis.whatif.analysis import Prepared, WhatIf, prepare, what_if
from diagnosis.whatif.operations import NotAnswerable, Sizes, dense
from diagnosis.whatif.recorded import recorded_operations
from diagnosis.whatif.schedules.memory import StageMemory, stage_memory
from ingest.readers import format_facts
from ingest.run import Run
from ingest.stopping import Interrupted, Stop

MOST_SPANS = 1_500_000
"""At most this many spans of all ranks are analysed: the newest steps. With 4,096 ranks these are
about five steps, the least that the search for pauses needs.
"""

MOST_INFIDELITY = 0.05
"""Share by which measured and replayed steps may differ without a note (arXiv 2505.05713)."""

MEMORY_STEPS = (1, 3)
"""First and last of those in which the hooks read how much memory forwards keep."""

_FEWEST_STEPS = 3
"""With at least this many steps, the first of an attempt is left out, as it warms up."""

Steps = tuple[int, int]
"""First and last, both included."""
_ALL_STEPS: Steps = (0, 2**62)


@dataclass(frozen=True)
class Answer:
    """The metrics, the prepared operations for a timeline, and all assumptions."""

    attempt: int
    metrics: WhatIf
    prepared: Prepared
    notes: tuple[str, ...]
    memory: StageMemory | None = None
    """of the stages; None where it was not recorded"""


@dataclass(frozen=True)
class Refusal:
    """Why the analysis of a run is not possible, in one sentence."""

    reason: str


def whatif_or_refusal(
    run: Run, attempt: int | None = None, steps: Steps | None = None, stop: Stop | None = None
) -> Answer | Refusal:
    """As `whatif_of`; a refusal is an answer, too, and worth caching."""
    try:
        return whatif_of(run, attempt, steps, stop)
    except NotAnswerable as error:
        return Refusal(str(error))


def can_replay(run: Run) -> bool:
    """Whether the newest attempt seems to have what the analysis needs: a layout and forwards, with
    pipeline stages those of several micro-batches. `whatif_of` checks everything.
    """
    layout = run.layout()
    if layout is None:
        return False
    rows = run.index_rows(
        "SELECT 1 FROM kind_rollup WHERE attempt = $attempt AND kind = 'forward'"
        " AND num_spans >= $least LIMIT 1",
        attempt=run.newest_attempt,
        least=2 if layout.size("pp") > 1 else 1,
    )
    return bool(rows) or format_facts(run.info["source"]).is_operation_trace


def stop_here(stop: Stop | None) -> None:
    """Raise Interrupted if the caller has left: replays check here, queries on their own."""
    if stop is not None and stop.called:
        raise Interrupted("the replay was cancelled: its caller has left")


def whatif_of(
    run: Run, attempt: int | None = None, steps: Steps | None = None, stop: Stop | None = None
) -> Answer:
    """Replay one attempt (default: the newest), or only some of its steps, first and last
    included; raises NotAnswerable and UserError.
    """
    wanted = attempt
    if wanted is None:
        wanted = run.newest_attempt if steps is None else run.attempt_with(steps[0])
    layout = run.layout(wanted)
    if layout is None:
        raise NotAnswerable(
            "the layout of the job is unknown, so rankscope cannot tell which ranks are stages of "
            "one pipeline and which are replicas. For an import, set the layout with “rankscope "
            "layout”; for a StragglerAnalysis trace, put its YAML file with the sizes next to it; "
            "to record a job, start it with TRACE_HOOKS_LAYOUT"
        )
    sizes = Sizes(layout.size("dp"), layout.size("pp"), layout.size("cp"))
    rows, notes = _operations(run, wanted, sizes, steps, stop)
    stop_here(stop)
    prepared = prepare(dense(rows, sizes))
    stop_here(stop)
    metrics = what_if(prepared)
    notes = (*notes, *prepared.ops.notes, *_fidelity_note(metrics.fidelity))
    memory = _memory(run, wanted, prepared, stop)
    return Answer(wanted, metrics, prepared, notes, memory)


def _memory(run: Run, attempt: int, prepared: Prepared, stop: Stop | None) -> StageMemory | None:
    """From the replayed steps, else from the first ones, in which hooks read it, too; None of a job
    without a pipeline.
    """
    if prepared.ops.sizes.pp < 2:
        return None
    steps = prepared.ops.step_S
    for first, last in ((int(steps[0]), int(steps[-1])), MEMORY_STEPS):
        rows = run.ask("stage_memory", attempt=attempt, step_min=first, step_max=last, stop=stop)
        memory = stage_memory(rows.to_pylist(), prepared.ops.sizes.pp)
        if memory is not None:
            return memory
    return None


def _fidelity_note(fidelity: float) -> tuple[str, ...]:
    """A note for a replay that is far off; the paper excludes such jobs."""
    if abs(fidelity) <= MOST_INFIDELITY:
        return ()
    if fidelity > 0:
        return (
            f"Measured steps are {100 * fidelity:.0f} % longer than replayed ones, because of gaps "
            "between operations (launches, pauses, waiting for data); no number includes them.",
        )
    return (
        f"Measured steps are {-100 * fidelity:.0f} % shorter than replayed ones: operations ran "
        "at the same time that the replay runs one after the other.",
    )


def _operations(
    run: Run, attempt: int, sizes: Sizes, chosen: Steps | None, stop: Stop | None
) -> tuple[pa.Table, tuple[str, ...]]:
    if format_facts(run.info["source"]).is_operation_trace:
        low, high = chosen or _ALL_STEPS
        return run.ask("whatif_ops", attempt=attempt, step_min=low, step_max=high, stop=stop), ()
    first, last, notes = _steps(run, attempt, chosen)
    spans = run.ask("whatif_spans", attempt=attempt, step_min=first, step_max=last, stop=stop)
    rows, assumed = recorded_operations(spans, sizes, _is_whole(run, attempt))
    return rows, (*notes, *assumed)


def _is_whole(run: Run, attempt: int) -> bool:
    """Whether no rank of the job is missing, by its layout."""
    layout = run.layout(attempt)
    ranks = {info["rank"] for info in run.ranks if info["attempt"] == attempt}
    return layout is not None and len(ranks) >= layout.world_size


def _steps(run: Run, attempt: int, chosen: Steps | None) -> tuple[int, int, tuple[str, ...]]:
    """First and last step to analyse: the newest (of the chosen) that all ranks have finished."""
    low, high = chosen or _ALL_STEPS
    finished = run.index_rows(
        "WITH recorded AS (SELECT DISTINCT rank FROM step_rollup WHERE attempt = $attempt)"
        " SELECT step, CAST(sum(num_spans) AS BIGINT) AS num_spans FROM step_rollup"
        " WHERE attempt = $attempt AND step BETWEEN $low AND $high"
        " AND step NOT IN (SELECT step FROM summed_steps WHERE attempt = $attempt)"
        " GROUP BY step HAVING bool_and(finished) AND count(*) = (SELECT count(*) FROM recorded)"
        " ORDER BY step DESC",
        attempt=attempt,
        low=low,
        high=high,
    )
    if not finished:
        if chosen is None:
            which = "no step is"
        else:
            which = f"step {low} is not" if low == high else f"none of the steps {low} to {high} is"
        if _has_sums(run, attempt, low, high):
            raise NotAnswerable(
                f"{which} recorded span by span and finished on all ranks, so there is nothing to "
                "replay: TRACE_HOOKS_SPANS_EVERY left the spans out"
            )
        raise NotAnswerable(f"{which} finished on all ranks yet, so there is nothing to replay")
    taken, num_spans = 0, 0
    while (
        taken < len(finished)
        and (num_spans := num_spans + finished[taken]["num_spans"]) <= MOST_SPANS
    ):
        taken += 1
    taken = max(taken, 1)
    notes = []
    if chosen is None and taken == len(finished) >= _FEWEST_STEPS:
        taken -= 1
        notes.append(f"The first step ({finished[-1]['step']}) is left out: it warms up.")
    elif taken < len(finished):
        notes.append(f"Only the newest {taken} of {len(finished)} finished steps are analysed.")
    first, last = finished[taken - 1]["step"], finished[0]["step"]
    if _has_sums(run, attempt, first, last):
        notes.append("Steps whose spans were not recorded one by one are left out.")
    return first, last, tuple(notes)


def _has_sums(run: Run, attempt: int, first: int, last: int) -> bool:
    """Whether ranks summed up any of these steps instead of publishing their spans."""
    rows = run.index_rows(
        "SELECT 1 FROM summed_steps WHERE attempt = $attempt AND step BETWEEN $low AND $high"
        " LIMIT 1",
        attempt=attempt,
        low=first,
        high=last,
    )
    return bool(rows)
