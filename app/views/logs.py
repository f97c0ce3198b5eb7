"""Lines of logs for a pane: the newest of those that were asked for, in order of time."""

from __future__ import annotations

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


def _line(row: dict[str, Any]) -> dict[str, Any]:
    ranks = [rank for rank in row["ranks"] if rank >= 0]
    return {
        "ranks": ranks,
        "who": named(ranks) or row["host"] or "host",
        "at_s": None if row["ts_ns"] is None else row["ts_ns"] / 1e9,
        "where": f"{row['file']}:{row['line']}",
        **{name: row[name] for name in ("step", "level", "label", "text")},
    }
