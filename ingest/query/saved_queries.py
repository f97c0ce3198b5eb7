"""The saved queries of runs: one .sql file each, run by one class, values as parameters.

A file begins with a header of comment lines::

    -- What the answer is, in a sentence or two.
    -- reads: spans, collectives              raw tables, opened by the manifest's choice of files
    -- param: rank int required               name, type (int, float, text), `required` or a default
    -- param: attempt int = newest            newest: the newest attempt that has the step
    -- column: wait_ns  what it is, unit
    -- empty: what an empty result means

In the SQL a raw table is `rows_of($collectives)`, that of spans `spans_of($spans)`; rollups and the
manifest are plain tables.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

from ingest.errors import UserError
from trace_hooks.schema import TABLES

_TYPES: dict[str, type] = {"int": int, "float": float, "text": str}
_HEADER = re.compile(r"--\s?(?:(reads|param|column|empty):\s*)?(.*)")
_PARAMETER = re.compile(r"(\w+) (int|float|text) (?:(required)|= (\S+))(?:\s+(.*))?")
_IN_WORDS = {"int": "a whole number", "float": "a number", "text": "a text"}
_USED = re.compile(r"\$(\w+)")

NEWEST = "newest"
_NO_LIMIT = 2**31 - 1
"""Defaults of at least this size stand for no limit."""
_LONGEST = 60


@dataclass(frozen=True)
class Parameter:
    """One value that a saved query takes."""

    name: str
    type: str
    required: bool
    default: str
    doc: str

    @property
    def shown_default(self) -> str:
        """The default in documentation."""
        digits = self.default.lstrip("-")
        return "no limit" if digits.isdecimal() and int(digits) >= _NO_LIMIT else self.default

    def value(self, given: object) -> int | float | str:
        """`given`, perhaps text from a command line, in this parameter's type; UserError."""
        try:
            if isinstance(given, bool):
                raise ValueError
            converted: int | float | str = _TYPES[self.type](given)
            if isinstance(converted, float) and not math.isfinite(converted):
                raise ValueError
            if isinstance(converted, int) and not -(2**63) <= converted < 2**63:
                raise ValueError
        except (TypeError, ValueError, OverflowError):
            shown = repr(given) if len(repr(given)) <= _LONGEST else repr(given)[:_LONGEST] + "..."
            raise UserError(f"{self.name} is {shown}; give {_IN_WORDS[self.type]}") from None
        return converted


@dataclass(frozen=True)
class SavedQuery:
    """One .sql file, parsed."""

    name: str
    doc: str
    reads: tuple[str, ...]
    parameters: tuple[Parameter, ...]
    columns: tuple[tuple[str, str], ...]
    empty: str
    sql: str

    @property
    def used(self) -> frozenset[str]:
        """Names of the $values in the SQL."""
        return frozenset(_USED.findall(self.sql))

    def values(self, given: Mapping[str, object]) -> dict[str, Any]:
        """Every parameter's value: given, or its default (None for `null` and `newest`)."""
        known = {parameter.name for parameter in self.parameters}
        for name in given:
            if name not in known:
                takes = ", ".join(sorted(known)) or "nothing"
                raise UserError(f"the saved query {self.name} takes no {name!r}; it takes {takes}")
        values: dict[str, Any] = {}
        for parameter in self.parameters:
            value = given.get(parameter.name)
            if value is not None:
                values[parameter.name] = parameter.value(value)
            elif parameter.required:
                raise UserError(
                    f"the saved query {self.name} needs {parameter.name}; "
                    f"give {parameter.name}=... ({parameter.type})"
                )
            elif parameter.default in ("null", NEWEST):
                values[parameter.name] = None
            else:
                values[parameter.name] = parameter.value(parameter.default)
        return values

    @property
    def reads_steps_around(self) -> bool:
        """Whether it compares the steps asked for with the one before (and the one after)."""
        return "$step_min - 1" in self.sql

    @property
    def is_of_one_instance(self) -> bool:
        """Whether it is of one collective on all its members."""
        return {"attempt", "group_id", "seq"} <= {parameter.name for parameter in self.parameters}

    @property
    def wants_newest(self) -> bool:
        """Whether `attempt` is to be filled in with the newest one where it is not given."""
        return any(p.name == "attempt" and p.default == NEWEST for p in self.parameters)


def parse_saved_query(name: str, text: str) -> SavedQuery:
    """Saved query of a .sql file's text; raises ValueError for a header with too little in it."""
    parts: dict[str, list[str]] = {"": [], "reads": [], "param": [], "column": [], "empty": []}
    header = text.splitlines()
    body = next((i for i, line in enumerate(header) if not line.startswith("--")), len(header))
    last = ""
    for line in header[:body]:
        match = _HEADER.fullmatch(line)
        assert match is not None
        if match[1] is None and last in ("param", "column", "empty"):  # a continued line
            parts[last][-1] += " " + match[2].strip()
            continue
        last = match[1] or ""
        parts[last].append(match[2].strip())
    reads = tuple(name for line in parts["reads"] for name in line.replace(",", " ").split())
    parameters = []
    for line in parts["param"]:
        match = _PARAMETER.fullmatch(line)
        if match is None:
            raise ValueError(f"{name}.sql: cannot read the parameter {line!r}")
        parameters.append(
            Parameter(match[1], match[2], match[3] is not None, match[4] or "", match[5] or "")
        )
    unknown = set(reads) - set(TABLES)
    if unknown or not parts[""] or not parts["column"] or not parts["empty"]:
        raise ValueError(
            f"{name}.sql: needs a meaning, columns, what an empty result means, and known tables "
            f"({unknown})"
        )
    columns = [(column, doc) for column, _, doc in (c.partition(" ") for c in parts["column"])]
    return SavedQuery(
        name,
        " ".join(parts[""]),
        reads,
        tuple(parameters),
        tuple((column, doc.strip()) for column, doc in columns),
        " ".join(parts["empty"]),
        "\n".join(header[body:]).strip(),
    )


@cache
def saved_queries() -> dict[str, SavedQuery]:
    """Every saved query by name, from the files in sql/."""
    folder = resources.files("ingest").joinpath("sql")
    files = sorted(
        (file for file in folder.iterdir() if file.name.endswith(".sql")), key=lambda f: f.name
    )
    return {
        file.name.removesuffix(".sql"): parse_saved_query(
            file.name.removesuffix(".sql"), file.read_text(encoding="utf-8")
        )
        for file in files
    }


def saved_query(name: str) -> SavedQuery:
    """The saved query of a name; raises UserError."""
    query = saved_queries().get(name)
    if query is None:
        raise UserError(f"there is no saved query {name!r}; `rankscope query --list` lists them")
    return query
