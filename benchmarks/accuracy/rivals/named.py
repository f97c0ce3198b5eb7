"""Which ranks each tool names, per world and dose."""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from benchmarks.accuracy.cases import HEALTHY, TRACE, WORLDS
from benchmarks.accuracy.intervals import wilson
from benchmarks.accuracy.judge import Outcome
from benchmarks.accuracy.rivals.asked import Rival
from benchmarks.accuracy.rivals.baselines import BASELINES
from sample_traces.generate.labelled.doses import DOSES

OURS = "rankscope"


def rivals_named(texts: Sequence[str]) -> dict[str, Rival]:
    """The baselines and what --rival names: "package.module:function"; raises ValueError."""
    found: dict[str, Rival] = dict(BASELINES)
    for text in texts:
        module, _, function = text.partition(":")
        if not function:
            raise ValueError(f"--rival {text}: write package.module:function")
        try:
            found[text] = getattr(importlib.import_module(module), function)
        except ModuleNotFoundError as error:
            raise ValueError(f"--rival {text}: {error}; PYTHONPATH must have its folder") from None
        except AttributeError as error:
            raise ValueError(f"--rival {text}: {error}") from None
        if not callable(found[text]):
            raise ValueError(f"--rival {text}: {function} is no function")
    return found


def check_answers(outcomes: Sequence[Outcome], rivals: Sequence[str]) -> None:
    """Raise ValueError where some of the jobs were judged without one of these tools."""
    asked = [o for o in outcomes if o.case.world != TRACE and not o.error]
    for name in rivals:
        lacking = sum(name not in o.named for o in asked)
        if lacking:
            raise ValueError(
                f"--resume: {lacking} of its {len(asked)} jobs were judged without {name}; "
                "give a new file"
            )


@dataclass
class Counts:
    """Jobs by what a tool named in them."""

    exactly: int = 0
    with_others: int = 0
    others: int = 0
    nobody: int = 0
    accused: int = 0  # jobs without a culprit in which somebody is named
    blameless: int = 0

    @property
    def culprits(self) -> int:
        """Jobs with a culprit."""
        return self.exactly + self.with_others + self.others + self.nobody

    def add(self, culprits: set[int], named: set[int]) -> None:
        """Count one job."""
        if not culprits:
            self.blameless += 1
            self.accused += bool(named)
        elif named == culprits:
            self.exactly += 1
        elif named & culprits:
            self.with_others += 1
        else:
            self.others += bool(named)
            self.nobody += not named


def by_world(outcomes: Sequence[Outcome]) -> list[str]:
    """One row per world and tool."""
    chosen = _judgeable(outcomes)
    return _table("world", {name: [o for o in chosen if o.case.world == name] for name in WORLDS})


def by_kind(outcomes: Sequence[Outcome]) -> list[str]:
    """One row per planted kind and tool, over all worlds."""
    chosen = [o for o in _judgeable(outcomes) if o.case.kind != HEALTHY]
    kinds = sorted({o.case.kind for o in chosen if _culprits(o, set())})
    return _table("kind", {name: [o for o in chosen if o.case.kind == name] for name in kinds})


def _judgeable(outcomes: Sequence[Outcome]) -> list[Outcome]:
    asked = [o for o in outcomes if not o.error and o.case.world != TRACE]
    return [o for o in asked if all(label.is_identifiable for label in o.labels)]


def _table(first: str, groups: Mapping[str, Sequence[Outcome]]) -> list[str]:
    names = [first, "tool", *(f"culprits exactly, {dose}" for dose in DOSES)]
    names += ["and others", "others only", "nobody", "named where no rank is at fault"]
    names += ["named in healthy jobs", "errors"]
    rows = []
    for name, some in groups.items():
        tools = [OURS, *dict.fromkeys(tool for o in some for tool in o.named)]
        rows += [_row(name, tool, some) for tool in tools if some]
    return [f"| {' | '.join(names)} |", "|---" * len(names) + "|", *rows]


def _row(group: str, tool: str, outcomes: Sequence[Outcome]) -> str:
    doses = {dose: Counts() for dose in DOSES}
    total, healthy, errors = Counts(), Counts(), 0
    for o in outcomes:
        if tool != OURS and tool not in o.named:
            continue
        errors += tool in o.rival_errors
        named = _ours(o) if tool == OURS else set(o.named[tool])
        if o.case.kind == HEALTHY:
            healthy.add(set(), named)
            continue
        culprits = _culprits(o, named)
        total.add(culprits, named)
        if o.case.dose in doses:
            doses[o.case.dose].add(culprits, named)
    cells = [group, tool, *(share(one.exactly, one.culprits) for one in doses.values())]
    cells += [str(total.with_others), str(total.others), str(total.nobody)]
    cells += [share(total.accused, total.blameless), share(healthy.accused, healthy.blameless)]
    cells.append(str(errors))
    return f"| {' | '.join(cells)} |"


def _ours(outcome: Outcome) -> set[int]:
    return {rank for finding in outcome.findings for rank in finding["ranks"]}


def _culprits(outcome: Outcome, named: set[int]) -> set[int]:
    """Ranks at fault; of hosts that may stay unnamed only where they are named."""
    return {
        rank
        for label in outcome.labels
        if not label.or_nobody or named >= set(label.ranks)
        for rank in label.ranks
    }


def share(part: int, whole: int) -> str:
    """In words, with Wilson's interval."""
    if not whole:
        return "-"
    low, high = wilson(part, whole)
    return f"{part} of {whole} ({100 * low:.0f}-{100 * high:.0f} %)"
