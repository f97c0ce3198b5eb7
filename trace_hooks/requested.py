"""How members of what somebody asks a rank for are checked: one sentence says what is wrong.

`what` is the thing asked for, as the sentence names it: "a watch", "a prompt". Pure: no torch.
"""

from __future__ import annotations

import re
import reprlib
from collections.abc import Callable
from typing import Any

_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_short = reprlib.Repr()  # Python 3.11 takes no arguments here
_short.maxlevel, _short.maxlist, _short.maxdict = 2, 4, 4
_short.maxstring = _short.maxother = 40
_short.maxlong = 24


def said(value: Any) -> str:
    """A value as a sentence quotes it, cut where it is long."""
    return _short.repr(value)


def an_id(what: str, key: str, value: Any) -> str:
    """An id; raises ValueError."""
    if not isinstance(value, str) or not _ID.fullmatch(value):
        raise ValueError(
            f"{what}'s {key} is {said(value)}; give up to 64 letters, digits and ._- "
            "beginning with a letter or digit"
        )
    return value


def whole(what: str, key: str, value: Any, low: int, high: int) -> int:
    """A whole number of this range; raises ValueError."""
    if type(value) is not int or not low <= value <= high:
        raise ValueError(
            f"{what}'s {key} is {said(value)}; give a whole number from {low} to {high}"
        )
    return value


def whole_from(
    what: str, low: int, high: int, nothing: bool = False
) -> Callable[[str, Any], int | None]:
    """Reads a whole number of this range (`nothing`: or None); raises ValueError."""

    def read(key: str, value: Any) -> int | None:
        return None if nothing and value is None else whole(what, key, value, low, high)

    return read
