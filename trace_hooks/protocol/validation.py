"""Checks of the members of a request to a rank; a refusal is one sentence that names the value.

`what` is the requested thing, as the sentence names it: "a watch", "a prompt". Pure: no torch.
"""

from __future__ import annotations

import re
import reprlib
from collections.abc import Callable, Mapping
from typing import Any

_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_short = reprlib.Repr()  # Python 3.11 takes no arguments here
_short.maxlevel, _short.maxlist, _short.maxdict = 2, 4, 4
_short.maxstring = _short.maxother = 40
_short.maxlong = 24


def quoted(value: Any) -> str:
    """A value for a sentence, shortened where it is long."""
    return _short.repr(value)


def members(
    what: str, value: Any, read: Mapping[str, Callable[[str, Any], Any]], needs: tuple[str, ...]
) -> dict[str, Any]:
    """Members of a JSON object, converted by `read`; raises ValueError, also without `needs`."""
    if not isinstance(value, Mapping):
        raise ValueError(f"{what} is an object, not {quoted(value)}")
    unknown = [key for key in value if key not in read]
    if unknown:
        raise ValueError(f"{what} has no {quoted(unknown[0])}; it has {', '.join(read)}")
    missing = [key for key in needs if key not in value]
    if missing:
        raise ValueError(f"{what} needs {' and '.join(missing)}")
    return {key: read[key](key, given) for key, given in value.items()}


def an_id(what: str, key: str, value: Any) -> str:
    """An id; raises ValueError."""
    if not isinstance(value, str) or not _ID.fullmatch(value):
        raise ValueError(
            f"{what}'s {key} is {quoted(value)}; give up to 64 letters, digits and ._- "
            "beginning with a letter or digit"
        )
    return value


def whole(what: str, key: str, value: Any, low: int, high: int) -> int:
    """A whole number of this range; raises ValueError."""
    if type(value) is not int or not low <= value <= high:
        raise ValueError(
            f"{what}'s {key} is {quoted(value)}; give a whole number from {low} to {high}"
        )
    return value


def whole_from(
    what: str, low: int, high: int, nothing: bool = False
) -> Callable[[str, Any], int | None]:
    """Reader of a whole number of this range (`nothing`: or None), which raises ValueError."""

    def read(key: str, value: Any) -> int | None:
        return None if nothing and value is None else whole(what, key, value, low, high)

    return read
