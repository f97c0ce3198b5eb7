"""Other spellings of the same statement: case, blanks, comments, quotes; and broken ones."""

from __future__ import annotations

import random
import re

_PART = re.compile(
    r"'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"|\$(\w*)\$.*?\$\1\$|\s+|[A-Za-z_]\w*|\d[\w.]*|.", re.S
)
_BLANKS = (
    "  ",
    "\n",
    "\t",
    "\r\n",
    "/**/",
    "/* ; */",
    "-- x\n",
    "/* 'a */",
    "\u00a0",
    "\u2003",
    "\f",
    "\v",
)
_BEFORE = ("", "", "", ";", "/* select */", "-- select 1\n", "\ufeff", "\n\n", " \t")
_AFTER = (
    "",
    "",
    "",
    "",
    "",
    ";",
    ";",
    ";;",
    " -- end",
    " /* end */",
    "; -- x",
    "\n;\n",
    "\x00",
    "/*",
)


def respelled(text: str, rng: random.Random) -> str:
    """The statement in another spelling, which DuckDB reads as the same mostly."""
    way = rng.randrange(4)
    made = "".join(_one(match[0], rng, way) for match in _PART.finditer(text))
    return rng.choice(_BEFORE) + made + rng.choice(_AFTER)


def _one(part: str, rng: random.Random, way: int) -> str:
    if part.isspace():
        return rng.choice(_BLANKS) if way in (0, 3) and rng.random() < 0.4 else part
    if part.isidentifier() and way in (1, 3):
        return "".join(rng.choice((c.lower(), c.upper())) for c in part)
    if way == 2 and part.startswith("'") and "@" not in part and rng.random() < 0.5:
        return f"$q${part[1:-1].replace(chr(39) * 2, chr(39))}$q$"
    return part


def broken(text: str, rng: random.Random, words: tuple[str, ...]) -> str:
    """The statement with some parts left out, doubled, exchanged or replaced by keywords."""
    parts = [match[0] for match in _PART.finditer(text)]
    for _ in range(rng.randint(1, 4)):
        at, other = rng.randrange(len(parts)), rng.randrange(len(parts))
        change = rng.randrange(5)
        if change == 0:
            parts[at] = ""
        elif change == 1:
            parts[at] += " " + parts[other]
        elif change == 2:
            parts[at], parts[other] = parts[other], parts[at]
        elif change == 3:
            parts[at] = f" {rng.choice(words)} "
        else:
            parts[at] += rng.choice(
                ("(", ")", "'", '"', "$$", ";", "/*", "--", "\x00", "€", "@", "?")
            )
    return "".join(parts)
