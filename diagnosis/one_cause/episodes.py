"""Episodes of one kind at one place are one finding."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace

from diagnosis.findings import SEVERITIES, Cost, Finding
from diagnosis.statistics.units import NOT_SINCE, steps_text, when_text

NEAR_STEPS = 2
"""Findings of one cause begin this near to each other."""


def steps_of(finding: Finding) -> tuple[tuple[int, int], ...]:
    """First and last step of each of its episodes."""
    return finding.episodes or ((finding.first_step, finding.last_step),)


def num_steps(spans: Iterable[tuple[int, int]]) -> int:
    """How many steps these are, those that lie in several counted once."""
    return sum(last - first + 1 for first, last in _united(spans))


def shared_steps(finding: Finding, other: Finding) -> list[tuple[int, int]]:
    """First and last steps of what both have in common."""
    both = (
        (max(first, low), min(last, high))
        for first, last in steps_of(finding)
        for low, high in steps_of(other)
    )
    return [(first, last) for first, last in both if first <= last]


def overlap(finding: Finding, other: Finding) -> bool:
    """Whether they share more than half of the steps of the shorter one."""
    shared = min(finding.last_step, other.last_step) - max(finding.first_step, other.first_step)
    return 2 * (shared + 1) > min(
        finding.last_step - finding.first_step, other.last_step - other.first_step
    )


def lost_ms(finding: Finding) -> float:
    """What it costs in all its steps."""
    return finding.cost.ms_per_step * finding.cost.num_steps if finding.cost else 0.0


def of_one_place(findings: Sequence[Finding]) -> dict[int, Finding | str | None]:
    """Episodes of one kind at one place as one finding, in place of the first of them."""
    groups = defaultdict[tuple[object, ...], list[int]](list)
    for index, finding in enumerate(findings):
        ranks = () if finding.hosts else tuple(sorted(p.rank for p in finding.culprits))
        what = finding.title if finding.kind in _SAYS_WHAT else ""
        groups[finding.kind, what, ranks, finding.stages, finding.hosts].append(index)
    changed: dict[int, Finding | str | None] = {}
    for members in groups.values():
        if len(members) > 1:
            changed |= dict.fromkeys(members)
            changed[members[0]] = joined([findings[index] for index in members])
    return changed


_SAYS_WHAT = ("slow_op", "hot_expert")
"""Kinds whose title says what is slow or busy: another one at the same place is another cause."""


def joined(parts: Sequence[Finding]) -> Finding:
    """One finding of several episodes: the most urgent and costly part, with all their steps."""
    parts = sorted(parts, key=lambda part: part.first_step)
    main = most_urgent(parts)
    cost = main.cost and _joined_cost(main.cost, parts, _spans_of(parts))
    return replace(spanning(main, parts), cost=cost)


def most_urgent(parts: Sequence[Finding]) -> Finding:
    """The most urgent of several findings, and of these the costliest."""
    return min(parts, key=lambda part: (SEVERITIES.index(part.severity), -lost_ms(part)))


def spanning(main: Finding, parts: Sequence[Finding]) -> Finding:
    """The finding with the steps of all parts, of which it is one, as its text and cost say."""
    spans = _spans_of(parts)
    first, last = spans[0][0], max(last for _, last in spans)
    was = when_text(main.first_step, main.last_step, main.ongoing)
    text = main.text.removesuffix(_came(steps_of(main)))
    now = when_text(first, last, main.ongoing)
    if len(spans) > 1:
        now = was.removesuffix(NOT_SINCE)  # it may have come again
    text = re.sub(rf"{was}\b", now, text)
    longer = num_steps(spans) - num_steps(steps_of(main))
    cost = main.cost and replace(main.cost, num_steps=main.cost.num_steps + longer)
    return replace(
        main,
        text=f"{text}{_came(spans)}",
        first_step=first,
        last_step=last,
        cost=cost,
        episodes=tuple(spans) if len(spans) > 1 else (),
    )


def _came(spans: Sequence[tuple[int, int]]) -> str:
    """A sentence on when it came and went; nothing where it came once."""
    if len(spans) == 1:
        return ""
    listed = ", ".join(steps_text(*span) for span in spans[:_MOST_LISTED])
    listed += f" and {len(spans) - _MOST_LISTED} more" if len(spans) > _MOST_LISTED else ""
    return f" It came {len(spans)} times: {listed}."


def _spans_of(parts: Sequence[Finding]) -> list[tuple[int, int]]:
    return _united(span for part in parts for span in steps_of(part))


_MOST_LISTED = 5


def _united(spans: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """In order, those that meet as one."""
    united: list[tuple[int, int]] = []
    for first, last in sorted(spans):
        if united and first <= united[-1][1] + 1:
            united[-1] = (united[-1][0], max(united[-1][1], last))
        else:
            united.append((first, last))
    return united


def _joined_cost(cost: Cost, parts: Sequence[Finding], spans: Sequence[tuple[int, int]]) -> Cost:
    """The mean over the episodes of what the costliest part says of each."""
    costs = []
    for first, last in spans:
        of_span = [
            part
            for part in parts
            if part.cost and any(low <= last and first <= high for low, high in steps_of(part))
        ]
        main = max(of_span, key=lost_ms, default=None)
        if main is not None and main.cost is not None:
            costs.append((last - first + 1, main.cost))
    total = sum(number for number, _ in costs)
    longer = sum(number * each.ms_per_step for number, each in costs) / total
    step = sum(number * each.step_ms for number, each in costs) / total
    step_ms = round(step, 3)
    longer_ms = min(round(longer, 3), step_ms)
    return replace(cost, ms_per_step=longer_ms, step_ms=step_ms, num_steps=num_steps(spans))
