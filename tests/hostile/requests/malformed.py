"""JSON with one thing wrong at a time, and texts that no honest page sends."""

from __future__ import annotations

import copy
import json
import os
from collections.abc import Iterator, Sequence
from typing import Any, TypeVar

DIGITS = "9" * 5000
"""More than Python turns into a number."""
BAD_VALUES: tuple[Any, ...] = (
    None,
    True,
    0,
    -1,
    1.5,
    10**400,
    float("nan"),
    float("inf"),
    "",
    "x",
    "\x00",
    "\ud800",
    DIGITS,
    "x" * 100_000,
    [],
    {},
    [1],
    [[]],
    [{}],
    {"a": 1},
    {"index": "ALL", "type": "x"},
    ["ALL"],
    json.loads("[" * 900 + "]" * 900),
)
BAD_TEXTS = (
    "",
    "%20",
    "-1",
    "-0",
    "x",
    "%00",
    "%ff%fe",
    "%ED%A0%80",
    "%D9%A3",
    "%C2%B2",
    DIGITS,
    "-" + DIGITS,
    "9" * 15,
    "9007199254740993",
    "1e400",
    "nan",
    "0..0",
    "5..1",
    "0..9999999999",
    f"0..{DIGITS}",
    f"{DIGITS}..{DIGITS}",
    "1,2,3",
    "0-99999999",
    "'",
    '"',
    "a" * 20_000,
    "%0d%0a",
    "[]",
    "{}",
    "../..",
    "%2e%2e%2f",
)
"""Values of a query, percent-encoded where need be."""

_ALL = os.environ.get("RANKSCOPE_TEST_ALL") == "1"

At = tuple[Any, ...]
T = TypeVar("T")


def some(values: Sequence[T], place: int, every: int = 9) -> Sequence[T]:
    """Every `every`-th value, others at each of as many places; all under make test-long."""
    return values if _ALL else values[place % min(every, len(values)) :: every]


def places(value: Any, at: At = ()) -> Iterator[At]:
    """Where the parts of a JSON value are, outside in."""
    yield at
    if isinstance(value, dict):
        for key in value:
            yield from places(value[key], (*at, key))
    elif isinstance(value, list):
        for number, one in enumerate(value):
            yield from places(one, (*at, number))


def mutants(value: Any) -> Iterator[Any]:
    """The value with one part replaced, left out or put in."""
    for at in places(value):
        for bad in BAD_VALUES:
            yield _changed(value, at, bad)
        if at:
            yield _without(value, at)
        yield from _with_more(value, at)


def _changed(value: Any, at: At, new: Any) -> Any:
    if not at:
        return new
    made = copy.deepcopy(value)
    _part(made, at[:-1])[at[-1]] = new
    return made


def _without(value: Any, at: At) -> Any:
    made = copy.deepcopy(value)
    del _part(made, at[:-1])[at[-1]]
    return made


def _with_more(value: Any, at: At) -> Iterator[Any]:
    made = copy.deepcopy(value)
    part = _part(made, at)
    if isinstance(part, dict):
        part["surplus"] = [{}]
        yield made
    elif isinstance(part, list):
        part.append(copy.deepcopy(part[0]) if part else {})
        yield made


def _part(value: Any, at: At) -> Any:
    for key in at:
        value = value[key]
    return value
