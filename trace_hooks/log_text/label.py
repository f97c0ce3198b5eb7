"""What a line of a log can be known to mean."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

ROLES = ("initiating", "context", "cascade", "teardown")
"""initiating: may be the first cause; context: says what went on; cascade: an echo of a failure
elsewhere; teardown: what ends processes once something has failed."""

CATEGORIES = (
    "hardware",
    "memory",
    "network",
    "storage",
    "data",
    "user_code",
    "numerics",
    "setting",
    "software",
    "preemption",
    "timeout",
    "launcher",
)

ADVICE = ("", "restart", "cordon_node", "reset_gpu", "fix_code", "raise_limit", "fix_setting")

LONGEST_GAP = 200
"""Patterns span at most so many characters between two of their words."""


@dataclass(frozen=True)
class Label:
    """One meaning. `reason`: one sentence, why the advice follows. `hints`: lower-case pieces, one
    of which any text with this meaning contains; `pattern`: searched for where one does.
    `rank_is_known`: whether the rank that printed it is the one concerned. `is_weak`: it is the
    cause only where nothing better is found.
    """

    name: str
    role: str
    category: str
    advice: str
    reason: str
    hints: tuple[str, ...]
    pattern: re.Pattern[str] = field(repr=False)
    rank_is_known: bool = True
    is_weak: bool = False

    def __post_init__(self) -> None:
        for value, known in (
            (self.role, ROLES),
            (self.category, CATEGORIES),
            (self.advice, ADVICE),
        ):
            if value not in known:
                raise ValueError(f"label {self.name}: {value!r} is none of {', '.join(known)}")
        if not self.hints or any(hint != hint.lower() for hint in self.hints):
            raise ValueError(f"label {self.name}: give hints in lower case")

    def matches(self, text: str, lowered: str) -> bool:
        """Whether a text, and the same in lower case, has this meaning."""
        return any(hint in lowered for hint in self.hints) and bool(self.pattern.search(text))


def label(
    name: str,
    kind: str,
    advice: str,
    reason: str,
    pattern: str,
    *hints: str,
    of_rank: bool = True,
    is_weak: bool = False,
) -> Label:
    """A label of kind "role category", whose pattern ignores case and in which `..` stands for any
    LONGEST_GAP characters.
    """
    role, category = kind.split()
    spaced = pattern.replace("..", rf"[\s\S]{{0,{LONGEST_GAP}}}?")
    compiled = re.compile(spaced, re.IGNORECASE)
    return Label(name, role, category, advice, reason, hints, compiled, of_rank, is_weak)


def named(labels: Iterable[Label]) -> Mapping[str, Label]:
    """Labels by name; raises ValueError for a name given twice."""
    found: dict[str, Label] = {}
    for each in labels:
        if each.name in found:
            raise ValueError(f"there are two labels {each.name}")
        found[each.name] = each
    return found
