"""first_error: the line of a log, or the exception that the hooks recorded, with which it began.

Lines have a known meaning (trace_hooks/log_text/labels.py): some begin a failure, others are its
echoes. Of those that begin one the earliest is taken, on the aligned clock, as far as their times
can be told apart (diagnosis/first_cause/decision.py). Where there are none, timeouts tell which
rank was waited for; where they do not, it is said that the cause is unknown.

Source: roles after NVIDIA's NVRx attribution; order of classes as in L4 (2503.20263). Assumes:
clocks of hosts that nobody compared differ by at most 5 s. Known false positives: an exception
that the program catches silently just before something else fails. Blind spots: failures without
a line of their own, such as a host that loses power.
"""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from diagnosis.findings import Evidence, Finding, Place, Verdict
from diagnosis.first_cause.cause import FirstCause, World
from diagnosis.first_cause.evidence import QUESTIONS as ASKED
from diagnosis.first_cause.evidence import Judged, judged
from diagnosis.first_cause.facts import user_frames
from diagnosis.first_cause.lines import LINES, Line
from diagnosis.first_cause.text import (
    advice_of,
    alternatives_of,
    next_step_of,
    shown,
    text_of,
    title_of,
)

NAME = "first_error"
KINDS = ("first_error",)
QUESTIONS = ASKED

_QUOTED = 300
"""Characters of a line that stand in the evidence."""


def detect(tables: Mapping[str, pa.Table], attempt: int) -> Verdict | None:
    """Verdict on an attempt; None where no log and no end of a rank shows an error."""
    judgement = judged(tables)
    if not judgement.num_lines:
        return None
    if judgement.cause is not None:
        return Verdict(NAME, (_finding(judgement.cause, judgement, tables, attempt),), of_data=True)
    return Verdict(NAME, checked=_unknown(judgement), of_data=True)


def _unknown(judgement: Judged) -> str:
    """That nothing decides, and what was seen."""
    seen = [*judgement.episode.weak, *judgement.episode.echoes]
    reasons = [line.label.reason for line in judgement.settings if line.label]
    advised = " ".join(dict.fromkeys(reasons))
    if not seen:
        return f"The logs show no line that ended the job. {advised}".strip()
    first = min(seen, key=lambda line: line.begin_ns)
    return (
        f"The logs do not show the first cause: the earliest of {len(seen)} lines about a failure "
        f"is an echo ({shown(first)}, {first.where()}). {advised}"
    ).strip()


def _finding(
    cause: FirstCause, judgement: Judged, tables: Mapping[str, pa.Table], attempt: int
) -> Finding:
    world = judgement.world
    victims = {line.rank for line in (*judgement.episode.echoes, *judgement.episode.weak)}
    step = _last_step(tables)
    return Finding(
        kind=NAME,
        attempt=attempt,
        severity="urgent",
        confidence=cause.confidence,
        title=title_of(cause),
        text=text_of(cause),
        culprits=tuple(Place(rank, _host(rank, cause, world)) for rank in cause.ranks),
        victims=tuple(sorted((victims & set(world.hosts)) - set(cause.ranks))),
        first_step=step,
        last_step=step,
        ongoing=True,
        evidence=_evidence(cause, attempt),
        alternatives=alternatives_of(cause, judgement.settings),
        next_step=next_step_of(cause),
        hosts=cause.hosts,
        cause=shown(cause.line),
        advice=advice_of(cause),
    )


def _last_step(tables: Mapping[str, pa.Table]) -> int:
    """The newest step that a look or a rank's last sign tells of; 0 where none does."""
    looks, signs = tables["rank_looks"].to_pylist(), tables["last_signs"].to_pylist()
    steps: list[int] = [row["step"] for row in looks] + [row["last_step"] or 0 for row in signs]
    return max([0, *steps])


def _host(rank: int, cause: FirstCause, world: World) -> str | None:
    """Of a rank that is named: where it left data, else where its line was written."""
    return world.host_of(rank) or (cause.line.host if cause.line.rank == rank else None)


def _evidence(cause: FirstCause, attempt: int) -> tuple[Evidence, ...]:
    """The line, the frames of the program, and equal lines of other ranks."""
    found = [_sentence(cause.line, attempt)]
    frames = user_frames(cause.line.text)
    if frames:
        text = f"In the program, innermost last: {'; '.join(frames)}."
        found.append(_said(text, float(len(frames)), "frames", attempt))
    ranks = {line.rank for line in cause.equal if line.rank >= 0}
    if len(ranks) > 1:
        found.append(_said(f"{len(ranks)} ranks have this line.", len(ranks), "ranks", attempt))
    return tuple(found)


def _sentence(line: Line, attempt: int) -> Evidence:
    label = f" ({line.name})" if line.label else ""
    return _said(f"{line.where()}: {shown(line, _QUOTED)}{label}", line.number, "line", attempt)


def _said(text: str, number: float, unit: str, attempt: int) -> Evidence:
    given = (("attempt", attempt),)
    return Evidence(text, float(number), unit, LINES, given, (("page", "stuck"), *given))
