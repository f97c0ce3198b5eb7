"""DuckDB's report on a statement that failed, as one sentence for its author."""

from __future__ import annotations

import re

import duckdb

from ingest.stopping import Interrupted, Stop

_REMEDY = "choose fewer ranks or steps"
_MEMORY_SHORT = f"the query needs more memory than it may use; {_REMEDY}"
PROCESS_ENDED = (
    "the query failed: its process ended before its answer did, mostly because it needs more "
    f"memory than it may use; {_REMEDY}"
)
_POSITION = re.compile(r"^LINE (\d+): (.*)\n( *)\^", re.M)
_PYTHON_ERROR = re.compile(r"^\w+Error: (\[Errno \d+\] )?")
_LONGEST = 1000
_SHORT = ("bad_alloc", "bad allocation", "failed to allocate", "Out of Memory", "malloc of size")


def interrupted(limit_s: float | None, stop: Stop | None) -> Interrupted:
    """Why a query ended that `stop`, or else its time limit, interrupted."""
    is_stopped = stop is not None and stop.called
    why = "was interrupted" if is_stopped else f"took longer than {limit_s} s"
    return Interrupted(f"the query {why}; {_REMEDY}")


def sentence(error: BaseException) -> str:
    """What went wrong, with DuckDB's hint and where in the text."""
    text = str(error)
    is_short = isinstance(error, MemoryError | duckdb.OutOfMemoryException)
    if is_short or any(sign in text for sign in _SHORT):
        return _MEMORY_SHORT
    return f"SQL: {_message(text)}"[:_LONGEST]


def _message(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if not lines:
        return "it failed"
    if lines[0].startswith("Traceback"):  # of run_file_system: its last line has the reason
        traced = text.partition("\n\nLINE ")[0].splitlines()
        return _PYTHON_ERROR.sub("", traced[-1].strip())
    hint = next((line for line in lines[1:] if line.startswith(("Did you mean", "Candidate"))), "")
    position = _POSITION.search(text)
    where = ""
    if position is not None:
        column = len(position[3]) - len(f"LINE {position[1]}: ") + 1
        where = f"(line {position[1]}, character {max(1, column)})"
    return " ".join(filter(None, (lines[0], hint, where)))
