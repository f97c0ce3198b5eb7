"""error.json, in which torchelastic notes the exception of a rank that failed.

    {"message": {"message": TEXT, "extraInfo": {"py_callstack": TEXT, "timestamp": SECONDS}}}

Older versions write the text alone. A rank that a signal ended writes none.
"""

from __future__ import annotations

import json
from typing import Any

from trace_hooks.log_text.line_rows import TRACEBACK

_BEGINNING = b'{"message"'
_KEYS = {"message", "errorCode"}
_MOST_DIGITS = 11


def error_in(head: bytes) -> dict[str, Any] | None:
    """The exception that such a file holds; None where it is another file."""
    if not head.lstrip().startswith(_BEGINNING):
        return None
    try:
        content = json.loads(head)
    except (ValueError, RecursionError):
        return None
    if not isinstance(content, dict) or not content.keys() <= _KEYS:
        return None
    message = content["message"]
    if isinstance(message, dict):
        return message if "message" in message or "extraInfo" in message else None
    return {"message": message} if isinstance(message, str) else None


def text_of(error: dict[str, Any]) -> str:
    """The traceback where there is one, else the message."""
    extra = error.get("extraInfo")
    stack = extra.get("py_callstack") if isinstance(extra, dict) else None
    return str(stack or error.get("message") or "").strip()


def seconds_of(error: dict[str, Any]) -> int | None:
    """When it was raised, Unix seconds; None unknown."""
    extra = error.get("extraInfo")
    stamp = str(extra.get("timestamp") or "") if isinstance(extra, dict) else ""
    is_time = stamp.isascii() and stamp.isdecimal() and len(stamp) <= _MOST_DIGITS
    return int(stamp) if is_time else None


def level_of_error(text: str, level: str) -> str:
    """An error, whatever its words."""
    return "error" if text.startswith(TRACEBACK) else level or "error"
