"""The order of names in which people count: node2 comes before node10."""

from __future__ import annotations

import re

_DIGITS = re.compile(r"([0-9]+)")


def natural(name: str) -> tuple[list[tuple[int, str]], str]:
    """Key of a name for sorting; numbers come before letters.

    >>> sorted(["node10", "node2", "1", "10", "0"], key=natural)
    ['0', '1', '10', 'node2', 'node10']
    """
    parts = []
    for position, part in enumerate(_DIGITS.split(name)):
        digits = part.lstrip("0")  # compared as text: int() takes no more than 4,300
        parts.append((len(digits), digits) if position % 2 else (0, part))
    return parts, name
