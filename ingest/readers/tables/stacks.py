"""Stacks as `looks` and `entered` have them: a line 'function file:line' per frame."""

from __future__ import annotations

from collections.abc import Iterable

from trace_hooks.schema import UNKNOWN

MOST_FRAMES = 40
_PARTS_OF_FILE = 4
_LONGEST_NAME = 200


def stack_of(frames: Iterable[tuple[object, object, object]]) -> str | None:
    """The stack of (function, file, line), innermost first; None where no frame is sound.

    Of a file's path the last four parts are kept, as the watchdog does.
    """
    lines = []
    for name, file, line in frames:
        if not (isinstance(name, str) and isinstance(file, str) and name.strip() and file):
            continue
        number = line if type(line) is int and 0 <= line < 10**9 else UNKNOWN
        lines.append(f"{_of_line(name)} {_of_line(_short(file))}:{max(number, 0)}")
        if len(lines) == MOST_FRAMES:
            break
    return "\n".join(lines) or None


def _short(path: str) -> str:
    return "/".join(path.replace("\\", "/").split("/")[-_PARTS_OF_FILE:])


def _of_line(text: str) -> str:
    """Fit for one line, of which other characters could not be told."""
    return " ".join(text.split())[:_LONGEST_NAME]
