"""Text from elsewhere, made fit for a log: short, on one line, nothing in it invisible."""

from __future__ import annotations

LONGEST = 200


def plain(value: object, longest: int = LONGEST) -> str:
    r"""The text of a value, at most `longest` characters of it, with escapes (\n, \x1b, \u202e) for
    what would break a line, move a terminal's cursor or turn the direction of reading.
    """
    text = value if isinstance(value, str) else str(value)
    shown = "".join(
        char if char.isprintable() else char.encode("unicode_escape").decode("ascii")
        for char in text[: longest + 1]
    )
    return shown if len(shown) <= longest else f"{shown[: longest - 1]}…"
