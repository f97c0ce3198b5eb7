"""Text from outside, made safe for a log: short, on one line, without invisible characters."""

from __future__ import annotations

LONGEST = 200


def printable(text: str) -> str:
    r"""The text with everything that is not plainly visible escaped (\n, \x1b, \u202e, ...)."""
    if text.isprintable():
        return text
    return "".join(
        char if char.isprintable() else char.encode("unicode_escape").decode() for char in text
    )


def storable(text: str) -> str:
    r"""The text with halves of surrogate pairs escaped (\udcff), which UTF-8 cannot encode: names
    of files may have them.
    """
    return text.encode("utf-8", "backslashreplace").decode()


def plain(value: object, longest: int = LONGEST) -> str:
    r"""The text of a value, at most `longest` characters of it, with escapes (\n, \x1b, \u202e) for
    what would break a line, move a terminal's cursor or turn the direction of reading.
    """
    text = value if isinstance(value, str) else str(value)
    shown = printable(text[: longest + 1])
    return shown if len(shown) <= longest else f"{shown[: longest - 1]}…"
