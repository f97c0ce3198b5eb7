"""Prometheus' text format: lines `name{label="value",...} value [milliseconds]`.

Source: Prometheus' "Exposition formats", text-based format.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

_LINE = re.compile(
    r"\s*([a-zA-Z_:][a-zA-Z0-9_:]*)\s*(?:\{(.*)\})?\s+([^\s{}]+)(?:\s+(-?\d{1,18}(?:\.\d+)?))?\s*"
)
_LABEL = re.compile(r'\s*([a-zA-Z_][a-zA-Z0-9_]*)\s*=\s*"((?:[^"\\]|\\.)*)"\s*(?:,|$)')
_ESCAPED = {"\\\\": "\\", '\\"': '"', "\\n": "\n"}
_LONGEST_LINE = 16_384


class Sample(NamedTuple):
    """One line; `ts_ns` None: it has no time."""

    name: str
    label_text: str
    labels: dict[str, str]
    value: float
    ts_ns: int | None


def lines_of(data: bytes) -> Iterator[str]:
    """Lines that are neither empty nor comments."""
    for line in data.decode("utf-8", "replace").split("\n"):
        text = line.strip()
        if text and not text.startswith("#"):
            yield text


def sample_of(line: str) -> Sample | None:
    """The sample of a line; None where it is none."""
    match = _LINE.fullmatch(line[:_LONGEST_LINE])
    if match is None:
        return None
    name, label_text, value, milliseconds = match.groups(default="")
    labels = labels_of(label_text)
    try:
        number = float(value)
    except ValueError:
        return None
    if labels is None:
        return None
    ts_ns = round(float(milliseconds)) * 1_000_000 if milliseconds else None
    if ts_ns is not None and not 0 <= ts_ns < 2**63:
        return None
    return Sample(name, label_text, labels, number, ts_ns)


def labels_of(text: str) -> dict[str, str] | None:
    """Labels by name; None where the text is no list of labels."""
    labels: dict[str, str] = {}
    at = 0
    while at < len(text) and text[at:].strip():
        match = _LABEL.match(text, at)
        if match is None:
            return None
        value = re.sub(r"\\.", lambda found: _ESCAPED.get(found[0], found[0]), match[2])
        labels[match[1]] = value
        at = match.end()
    return labels
