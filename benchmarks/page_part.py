"""The part of a page of docs/ that a benchmark writes: what lies between two lines of the page."""

from __future__ import annotations

import sys
from pathlib import Path


def write_part(page: Path, begin: str, end: str, text: str) -> None:
    """Put `text` between the lines `begin` and `end`; ends the program where one is missing."""
    head, found_begin, rest = page.read_text(encoding="utf-8").partition(begin)
    _, found_end, tail = rest.partition(end)
    if not found_begin or not found_end:
        sys.exit(f"{page} has no line {begin if not found_begin else end}")
    page.write_text(f"{head}{begin}\n\n{text.strip()}\n\n{end}{tail}", encoding="utf-8")
