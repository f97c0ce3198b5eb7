"""What DuckDB says of a statement that failed, as one sentence for whoever wrote it."""

from __future__ import annotations

import re

import duckdb

MEMORY_SHORT = "the query needs more memory than it may use; ask for fewer ranks or steps"
_POSITION = re.compile(r"^LINE (\d+): (.*)\n( *)\^", re.M)
_LONGEST = 1000
_SHORT = ("bad_alloc", "bad allocation", "failed to allocate", "Out of Memory", "malloc of size")


def sentence(error: BaseException) -> str:
    """What went wrong, with DuckDB's hint and where in the text."""
    text = str(error)
    is_short = isinstance(error, MemoryError | duckdb.OutOfMemoryException)
    if is_short or any(sign in text for sign in _SHORT):
        return MEMORY_SHORT
    return f"SQL: {_said(text)}"[:_LONGEST]


def _said(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if not lines:
        return "it failed"
    if lines[0].startswith("Traceback"):  # from a file of the run: its last line tells
        return lines[-1]
    hint = next((line for line in lines[1:] if line.startswith(("Did you mean", "Candidate"))), "")
    found = _POSITION.search(text)
    where = ""
    if found is not None:
        column = len(found[3]) - len(f"LINE {found[1]}: ") + 1
        where = f"(line {found[1]}, character {max(1, column)})"
    return " ".join(filter(None, (lines[0], hint, where)))
