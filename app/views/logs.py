"""Lines of logs for a pane: the newest of those that were asked for, in order of time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from diagnosis.stuck.text import named
from ingest.run import Run
from ingest.stopping import Stop

LEAST = ("warning", "error")


def log_lines(
    run: Run,
    attempt: int | None,
    ranks: str | None = None,
    text: str | None = None,
    least: str | None = None,
    steps: tuple[int, int] | None = None,
    stop: Stop | None = None,
) -> dict[str, Any]:
    """`lines`, and `num_found`: how many lines are as asked for. See log_lines.sql."""
    first, last = steps or (-1, 2**62)
    rows = run.ask(
        "log_lines",
        attempt=run.newest_attempt if attempt is None else attempt,
        ranks=ranks,
        text=text,
        least=least,
        step_min=first,
        step_max=last,
        stop=stop,
    ).to_pylist()
    return {"lines": [_line(row) for row in rows], "num_found": rows[0]["num_found"] if rows else 0}


def text_of_line(
    run: Run, attempt: int, part: str, ranks: Sequence[int], stop: Stop | None = None
) -> str:
    """The whole text of the first line that has this part, of one of the ranks where there are
    any; '' none.
    """
    asked = ",".join(map(str, ranks)) or None
    lines = log_lines(run, attempt, ranks=asked, text=part, stop=stop)["lines"]
    return str(lines[0]["text"]) if lines else ""


def _line(row: dict[str, Any]) -> dict[str, Any]:
    ranks = [rank for rank in row["ranks"] if rank >= 0]
    return {
        "ranks": ranks,
        "who": named(ranks) or row["host"] or "host",
        "at_s": None if row["ts_ns"] is None else row["ts_ns"] / 1e9,
        "where": f"{row['file']}:{row['line']}",
        **{name: row[name] for name in ("step", "level", "label", "text")},
    }
