"""The start-up of an attempt as the page Efficiency and `rankscope goodput` show it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any

from diagnosis.goodput.phase_words import DOING
from diagnosis.goodput.slow_start import ManyGroups, Slow, many_groups, slow_phases
from diagnosis.goodput.startup import (
    FIRST_STEP,
    NOT_RECORDED,
    QUESTIONS,
    WARM_UP,
    RankStart,
    starts_of,
)
from ingest.run import Run
from ingest.stopping import Stop
from trace_hooks.schema.job_tables import PHASES

MOST_RANKS = 32
"""Ranks with bars of their own; of more the slowest, and a spread of all."""

MOST_STRETCHES = 200

PARTS = (*PHASES, FIRST_STEP, WARM_UP, NOT_RECORDED)
"""In the order in which they are shown."""

Row = dict[str, Any]


@dataclass(frozen=True)
class Startup:
    """Plain values. `parts`: names that occur, in order. `ranks`: the slowest first, with
    `seconds`, `parts` and `bars` (phase, what, begin_s, seconds), `recorded`, 0 to 1, what it does
    `now` and what it read; `spread`: of each part over the ranks, `low`, `usual` and `high` s and
    the `rank` of the highest. `num_ranks`: with a recorded start; `missing`: ranks that have
    recorded nothing yet. `reads`, `saves`: rows of checkpoint_calls. `recorded`: share of all
    start-ups that is in a part with a name; None without any.
    """

    attempt: int
    is_over: bool
    seconds: float
    parts: tuple[str, ...]
    ranks: tuple[Row, ...]
    spread: tuple[Row, ...]
    num_ranks: int
    missing: tuple[int, ...]
    slow: tuple[Row, ...]
    groups: Row | None
    job_groups: int
    calls: tuple[Row, ...]
    recorded: float | None
    doing: dict[str, str]


def startup_of(run: Run, attempt: int | None, stop: Stop | None = None) -> Startup:
    """Of the newest attempt without a number; raises UserError."""
    wanted = run.newest_attempt if attempt is None else attempt
    starts = starts_of({name: run.ask(name, attempt=wanted, stop=stop) for name in QUESTIONS})
    recorded = [start for start in starts if start.is_recorded]
    calls = run.ask("checkpoint_calls", attempt=wanted, stop=stop).to_pylist()
    slow, groups = slow_phases(starts), many_groups(starts)
    named = {rank for one in slow for rank in one.ranks}
    first = sorted(recorded, key=lambda start: (start.rank not in named, -start.seconds))
    present = {part for start in recorded for part in start.parts}
    total_s = sum(start.seconds for start in recorded)
    lost_s = sum(start.parts.get(NOT_RECORDED, 0.0) for start in recorded)
    return Startup(
        attempt=wanted,
        is_over=bool(recorded) and all(start.is_over for start in recorded),
        seconds=max((start.until_s for start in recorded), default=0.0),
        parts=tuple(part for part in PARTS if part in present),
        ranks=tuple(map(_rank, first[:MOST_RANKS])),
        spread=tuple(_spread(part, recorded) for part in PARTS if part in present),
        num_ranks=len(recorded),
        missing=_missing(run, wanted, starts) if recorded else (),
        slow=tuple(map(asdict, slow)),
        groups=asdict(groups) if groups else None,
        job_groups=max((start.job_groups for start in recorded), default=0),
        calls=tuple(calls[-MOST_RANKS:]),
        recorded=1 - lost_s / total_s if total_s else None,
        doing=DOING,
    )


def sentences(startup: Startup) -> list[str]:
    """Who kept the job waiting, and in what; what a slow start has to do with groups."""
    said = []
    for row in startup.slow:
        slow = Slow(**row)
        who = ", ".join(map(str, slow.ranks[:8])) + (", ..." if len(slow.ranks) > 8 else "")
        said.append(
            f"{'Ranks' if len(slow.ranks) > 1 else 'Rank'} {who}: {slow.seconds:.1f} s "
            f"{DOING[slow.phase]} ({slow.what}), the others {slow.usual_s:.1f} s. These waited "
            f"{slow.cost_s:.1f} s for that."
        )
    if startup.groups is not None:
        groups = ManyGroups(**startup.groups)
        said.append(
            f"All ranks: {groups.seconds:.1f} s making {groups.num_groups} process groups, one "
            "after another."
        )
    return said


def _rank(start: RankStart) -> Row:
    now = start.now
    bars = [asdict(stretch) for stretch in start.stretches[:MOST_STRETCHES]]
    return {
        "rank": start.rank,
        "host": start.host,
        "begin_s": start.begin_s,
        "seconds": start.seconds,
        "parts": start.parts,
        "bars": bars,
        "step_begin_s": start.step_begin_s,
        "step_end_s": start.step_end_s,
        "recorded": start.recorded_share,
        "now": None if now is None else asdict(now),
        "read_s": start.read_s,
        "read_bytes": start.read_bytes,
    }


def _spread(part: str, starts: Sequence[RankStart]) -> Row:
    seconds = {start.rank: start.parts.get(part, 0.0) for start in starts}
    longest = max(seconds, key=lambda rank: seconds[rank])
    return {
        "part": part,
        "low": min(seconds.values()),
        "usual": median(seconds.values()),
        "high": seconds[longest],
        "rank": longest,
    }


def _missing(run: Run, attempt: int, starts: Sequence[RankStart]) -> tuple[int, ...]:
    """Ranks of a job that have recorded nothing, where the size is known: neither a start nor, as
    those without the source of start-ups, a step.
    """
    sizes = [info["world_size"] for info in run.ranks if info["attempt"] == attempt]
    seen = {start.rank for start in starts if start.is_recorded or start.is_over}
    return tuple(rank for rank in range(max(sizes, default=0)) if rank not in seen)
