"""What lines have in common: numbers, addresses, paths and times replaced by placeholders."""

from __future__ import annotations

import re

_TIME = re.compile(
    r"\b\d{4}[-/]\d\d[-/]\d\d[T _]\d\d[:\-]\d\d[:\-]\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?"
    r"|\b\d\d:\d\d:\d\d(?:[.,]\d+)?"
)
_ADDRESS = re.compile(
    r"\b\d{1,3}(?:\.\d{1,3}){3}(?::\d{1,5}\b|<\d{1,5}>|\b)|\b(?:[0-9a-fA-F]{1,4}:){3,7}[0-9a-fA-F]{0,4}"
)
_ID = re.compile(
    r"\b0x[0-9a-fA-F]+\b|\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b"
    r"|\b(?=[0-9a-f]*\d)(?=[0-9a-f]*[a-f])[0-9a-f]{8,64}\b|\b0[0-9a-f]{7,63}\b"
    r"|\b(?:[0-9a-fA-F]{4,8}:)?[0-9a-fA-F]{4}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}(?:\.[0-7])?(?![\w.]|:\w)"
)
"""Numbers of 8 digits and more in hexadecimal, UUIDs, and places on a PCI bus."""
_BAR = re.compile(r"(?<=%\|)[^|\w]{0,200}(?=\|)")
"""What a progress bar draws."""
_PATH = re.compile(r"(?<![\w<])(?:/[\w.@+-]+){2,}/?")
_NUMBER = re.compile(r"(?<![A-Za-z_])[-+]?\d+(?:[.,]\d+)*(?:e[-+]?\d+)?|(?<=[A-Za-z_])\d+(?!\w)")


def template_of(text: str) -> str:
    """The first line of a text with what varies replaced; equal for lines that differ in that."""
    line = text.split("\n", 1)[0]
    before, is_traceback, _ = line.partition("Traceback (most recent call last)")
    if is_traceback and "\n" in text:
        line = f"{before}Traceback: {text.rstrip().rsplit(chr(10), 1)[1]}"  # the exception says it
    line = _TIME.sub("<time>", line)
    line = _ID.sub("<id>", line)
    line = _ADDRESS.sub("<address>", line)
    line = _BAR.sub("", line)
    line = _PATH.sub("<path>", line)
    return _NUMBER.sub("<n>", line).strip()
