"""Files of several statements, each with a comment before it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

_EXPECTED = re.compile(r"-- (\d+) rows?: ")


@dataclass(frozen=True)
class Listed:
    """A statement of a file, and how many rows its comment promises."""

    text: str
    num_rows: int | None


def listed(name: str) -> list[Listed]:
    """The statements of a file next to this module."""
    content = Path(__file__).with_name(name).read_text("utf-8")
    found = []
    for part in re.split(r";\n", content):
        code = "\n".join(line for line in part.splitlines() if not line.startswith("--")).strip()
        expected = _EXPECTED.search(part)
        if code:
            found.append(Listed(code, int(expected[1]) if expected else None))
    return found
