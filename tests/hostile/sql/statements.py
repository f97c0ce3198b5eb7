"""The statements of a campaign: the same for the same seed and number."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass

from tests.hostile.sql.catalog import catalog
from tests.hostile.sql.functions import Calls
from tests.hostile.sql.grammar import Grammar, read_rules
from tests.hostile.sql.long_texts import LONG
from tests.hostile.sql.spelling import broken, respelled

WEIGHTS = {
    "functions": 30,
    "statements": 12,
    "modifying queries": 10,
    "dynamic SQL": 6,
    "files": 12,
    "content": 2,
    "system tables": 7,
    "settings": 3,
    "effects": 3,
    "broken": 5,
    "honest": 9,
    "limits": 1,
}
"""How many of a hundred statements each stratum has."""
RULE_OF = {
    "statements": "statement",
    "modifying queries": "modifying_query",
    "dynamic SQL": "dynamic_write",
    "files": "file_read",
    "content": "content_read",
    "system tables": "system_read",
    "settings": "setting_read",
    "effects": "effect",
    "honest": "honest",
}
_MOST_NESTED = 3


@dataclass(frozen=True)
class Statement:
    """A statement and how it came to be: the first stage is the simplest, the last is run."""

    number: int
    stratum: str
    stages: tuple[str, ...]

    @property
    def text(self) -> str:
        """What is run, with words for paths."""
        return self.stages[-1]

    @property
    def is_honest(self) -> bool:
        """Whether it has to be answered."""
        return self.stratum == "honest"

    @property
    def lists_settings(self) -> bool:
        """Whether any value that it answers is a setting."""
        return self.stratum == "settings" and "current_setting" in self.stages[0]


class Statements:
    """Makes the statements of one seed."""

    def __init__(self, seed: int, with_limits: bool = True) -> None:
        known = catalog()
        rules = read_rules("names", "statements", "reads", "nesting", "limits", "honest")
        rules |= {
            "any_setting": list(known.settings),
            "system_view": list(known.views),
            "table_function": known.names("table", "table_macro"),
            "pragma_function": known.names("pragma"),
        }
        self.grammar = Grammar(rules)
        self._calls = Calls(self.grammar)
        self._seed = seed
        self._words = known.keywords
        self._functions = list(known.functions)
        random.Random(seed).shuffle(self._functions)
        self._strata = [
            name
            for name, weight in WEIGHTS.items()
            for _ in range(weight)
            if with_limits or name != "limits"
        ]

    def __call__(self, num: int) -> Iterator[Statement]:
        """The first statements."""
        for number in range(num):
            yield self.one(number)

    def one(self, number: int) -> Statement:
        """Statement of that number."""
        rng = random.Random(f"{self._seed}:{number}")
        order = random.Random(f"{self._seed}/{number // len(self._strata)}")
        strata = order.sample(self._strata, len(self._strata))
        rounds, left = divmod(number, len(strata))
        stratum = strata[left]
        ordinal = rounds * strata.count(stratum) + strata[:left].count(stratum)
        stages = [self._core(stratum, ordinal, rng)]
        if stratum not in ("honest", "broken", "limits"):
            rule = "around_statement" if stratum == "statements" else "nested"
            often = 0.15 if stratum == "modifying queries" else 0.4  # deeper ones are never bound
            stages += self._nested(stages[0], rule, often, rng)
        if stratum not in ("broken", "limits") and rng.random() < 0.25:
            stages.append(self._respelled(stages[-1], stratum, rng))
        return Statement(number, stratum, tuple(stages))

    def _core(self, stratum: str, ordinal: int, rng: random.Random) -> str:
        if stratum == "functions":  # in turn, so that none is left out
            return self._calls.statement(self._functions[ordinal % len(self._functions)], rng)
        if stratum == "limits":
            is_long = rng.random() < 0.35
            return rng.choice(LONG)(rng) if is_long else self.grammar.text("heavy", rng)
        if stratum == "broken":
            rule = rng.choice(list(RULE_OF.values()))
            return broken(self.grammar.text(rule, rng), rng, self._words)
        return self.grammar.text(RULE_OF[stratum], rng)

    def _nested(self, text: str, rule: str, often: float, rng: random.Random) -> list[str]:
        """The text in one query or more; [] mostly not."""
        stages: list[str] = []
        while len(stages) < _MOST_NESTED and rng.random() < often:
            text = self.grammar.text(rule, rng, inner=text)
            stages.append(text)
            rule = "nested"
        return stages

    def _respelled(self, text: str, stratum: str, rng: random.Random) -> str:
        if stratum == "honest":  # in case and blanks only: it has to be answered
            return text.upper() if "'" not in text else text.replace(" ", "  ")
        return respelled(text, rng)
