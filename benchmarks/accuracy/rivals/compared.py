"""Which ranks rankscope and other tools name on the same jobs."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow.compute as pc

from benchmarks.accuracy.cases import HEALTHY, NATIVE, TRACE, WORLDS
from benchmarks.accuracy.judge import Outcome
from benchmarks.accuracy.rivals.inputs import spans_of, write_kineto, write_sections
from benchmarks.accuracy.rivals.installed import HTA, NVRX, answers_of
from benchmarks.accuracy.rivals.named import Counts, share
from benchmarks.accuracy.rivals.phases import phases_of, write_phase_sections
from benchmarks.accuracy.tables import AUDIBLE
from sample_traces.generate.labelled.worlds import LOG_WORLDS

MOST_RANKS = 32
"""Of a job given to others: a profile of each rank is written."""

_HEALTHY_MORE = 4


@dataclass
class Named(Counts):
    """The same with healthy jobs and errors apart."""

    alarms: int = 0
    healthy: int = 0
    errors: int = 0


def chosen(outcomes: Sequence[Outcome], per_kind: int) -> list[Outcome]:
    """Jobs for all tools: small ones with one place at fault, and healthy ones.

    `per_kind`: jobs of each kind and dose of our tables; of other worlds one is taken.
    """
    by_kind: dict[tuple[str, str, str], list[Outcome]] = {}
    for o in outcomes:
        one_place = len({(label.kind, label.ranks, label.stages) for label in o.labels}) <= 1
        identifiable = all(label.is_identifiable for label in o.labels)
        small = o.case.world in LOG_WORLDS or 1 < o.rank_steps <= MOST_RANKS * 40
        heard = o.case.world != TRACE and o.case.dose in AUDIBLE and not o.error
        if heard and one_place and identifiable and small:
            by_kind.setdefault((o.case.world, o.case.kind, o.case.dose), []).append(o)
    return [
        o
        for (world, kind, _), some in by_kind.items()
        for o in some[
            : (per_kind if world == NATIVE else 1) * (_HEALTHY_MORE if kind == HEALTHY else 1)
        ]
    ]


def compared(outcomes: Sequence[Outcome]) -> list[str]:
    """Table of all tools, per world; a tool that cannot run shows its error."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for part in ("sections", "kineto"):
            (folder / part).mkdir()
        for o in outcomes:
            _write(o, folder)
        answers_by_tool = {
            "rankscope": {o.case.name: {"ranks": _ours(o)} for o in outcomes},
            NVRX.name: answers_of(NVRX, folder / "sections"),
            HTA.name: answers_of(HTA, folder / "kineto"),
        }
    head = (
        "| world | tool | culprit exactly | culprit and others | others only | nobody | any rank "
        "where none is at fault | alarms on healthy jobs | errors |"
    )
    rows = []
    for world in WORLDS:
        some = [o for o in outcomes if o.case.world == world]
        for tool, answers in answers_by_tool.items() if some else ():
            if tool != HTA.name or world not in LOG_WORLDS:  # it reads profiles only
                rows.append(f"| {world} {_row(tool, answers, some)}")
    return [head, "|---" * 9 + "|", *rows]


def _write(outcome: Outcome, folder: Path) -> None:
    name, sections = outcome.case.name, folder / "sections" / f"{outcome.case.name}.json"
    with tempfile.TemporaryDirectory() as scratch:
        run, _ = outcome.case.drawn().write(Path(scratch))
        if outcome.case.world in LOG_WORLDS:
            write_phase_sections(phases_of(run), sections)
            return
        spans = spans_of(run)
    write_sections(spans, sections)
    newest = int(pc.max(spans["step"]).as_py())
    last_step = max((label.last_step for label in outcome.labels), default=newest)
    write_kineto(spans, folder / "kineto" / name, last_step)


def _ours(outcome: Outcome) -> list[int]:
    return sorted({rank for finding in outcome.findings for rank in finding["ranks"]})


def _row(tool: str, answers: dict[str, dict[str, object]], outcomes: Sequence[Outcome]) -> str:
    if "error" in answers:
        return f"| {tool} | {answers['error']} |" + " |" * 6
    named = Named()
    for o in outcomes:
        _count(named, o, answers.get(o.case.name, {"error": "no answer"}))
    culprits = named.exactly + named.with_others + named.others + named.nobody
    cells = [
        tool,
        share(named.exactly, culprits),
        named.with_others,
        named.others,
        named.nobody,
        share(named.accused, named.blameless),
        share(named.alarms, named.healthy),
        named.errors,
    ]
    return f"| {' | '.join(map(str, cells))} |"


def _count(named: Named, outcome: Outcome, answer: dict[str, object]) -> None:
    if "error" in answer:
        named.errors += 1
        return
    named_ranks = set(answer["ranks"])  # type: ignore[call-overload]
    culprits = {rank for label in outcome.labels for rank in label.ranks}
    if outcome.case.kind == HEALTHY:
        named.healthy += 1
        named.alarms += bool(named_ranks)
    else:
        named.add(culprits, named_ranks)
