"""Strict JSON for requests: refuses what Python's parser accepts but cannot write again.

Python reads NaN, Infinity, 1e999, numbers of thousands of digits and halves of surrogate pairs, and
fails when an answer contains them.
"""

from __future__ import annotations

import json
import math
from typing import Any, NoReturn

_LONGEST_NUMBER = 19
"""Digits and sign: below 2^63, the size of whole numbers in browsers and files."""


def loads(text: str | bytes) -> Any:
    """As json.loads; raises ValueError or RecursionError."""
    value = json.loads(text, parse_constant=_refuse, parse_float=_finite, parse_int=_whole)
    if not isinstance(text, str) or "\\u" in text:
        json.dumps(value, ensure_ascii=False).encode()  # UnicodeEncodeError is a ValueError
    return value


def _refuse(text: str) -> NoReturn:
    raise ValueError(f"{text} is not a number in JSON")


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text[:40]} is too large")
    return number


def _whole(text: str) -> int:
    if len(text) > _LONGEST_NUMBER:
        raise ValueError(f"{text[:40]} is too large")
    return int(text)
