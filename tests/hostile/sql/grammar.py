"""Grammars in files: rules with alternatives, one per line, from which texts are made.

    rule:
        an alternative with <another rule> or <rule|rule> inside
        3* one that is taken three times as often

`<'rule>` writes what the rule made as one SQL string. `<n..m>` is a number of that range. In all
other places text stands for itself.
"""

from __future__ import annotations

import random
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

FOLDER = Path(__file__).parent / "rules"
_SLOT = re.compile(r"<('?)([a-z_]+(?:\|[a-z_]+)*)>|<(-?\d+)\.\.(\d+)>")
_WEIGHT = re.compile(r"(\d+)\* ")
_DEEPEST = 12
"""Beyond it the first alternative of each rule is taken, which has to come to an end."""

Rules = dict[str, list[str]]


def read_rules(*names: str) -> Rules:
    """The rules of rules/NAME.grammar, all together."""
    rules: Rules = {}
    for name in names:
        rule = ""
        for line in (FOLDER / f"{name}.grammar").read_text("utf-8").splitlines():
            if line.startswith("    "):
                weight = _WEIGHT.match(line[4:])
                text = line[4 + weight.end() :] if weight else line[4:]
                rules[rule] += [text] * (int(weight[1]) if weight else 1)
            elif line and not line.startswith("#"):
                rule = line.removesuffix(":")
                assert rule not in rules, f"{rule} has rules twice"
                rules[rule] = []
    return rules


def quoted(text: str) -> str:
    """As a string in SQL."""
    return "'" + text.replace("'", "''") + "'"


class Grammar:
    """Makes texts from rules."""

    def __init__(self, rules: Mapping[str, Sequence[str]]) -> None:
        self.rules = rules

    def text(self, rule: str, rng: random.Random, **given: str) -> str:
        """A text of the rule; `given`: what stands for other rules this time."""
        return self.fill(f"<{rule}>", rng, 0, given)

    def fill(
        self, text: str, rng: random.Random, depth: int = 0, given: Mapping[str, str] | None = None
    ) -> str:
        """The text with all its slots filled."""

        def slot(match: re.Match[str]) -> str:
            if match[3] is not None:
                return str(rng.randint(int(match[3]), int(match[4])))
            name = rng.choice(match[2].split("|"))
            if given and name in given:
                made = given[name]
            else:
                alternatives = self.rules[name]
                chosen = alternatives[0] if depth > _DEEPEST else rng.choice(alternatives)
                made = self.fill(chosen, rng, depth + 1, given)
            return quoted(made) if match[1] else made

        return _SLOT.sub(slot, text)

    def missing(self) -> set[str]:
        """Rules that others name and nobody has."""
        named = {
            name
            for alternatives in self.rules.values()
            for text in alternatives
            for match in _SLOT.finditer(text)
            if match[2]
            for name in match[2].split("|")
        }
        return named - self.rules.keys()
