"""Data of a run without step times: collectives, and the progress of each group."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from app.view_state import format_ranks
from ingest.run import Run
from ingest.stopping import Stop


@dataclass(frozen=True)
class Front:
    """One group and its oldest collective that is not completed; at most 64 ranks per list."""

    name: str
    axis: str
    num_members: int | None
    num_open: int
    seq: int | None
    """its collective number; None: there is none, or only sends and receives"""
    op: str
    behind: tuple[int, ...]
    """members for which it is the oldest open collective"""
    ahead: tuple[int, ...]
    """members that are further"""
    ahead_seq: int | None
    absent: tuple[int, ...]
    """members with no open collective in the group"""

    @property
    def is_apart(self) -> bool:
        """Whether its members are at different collectives."""
        return self.seq is not None and bool(self.ahead or self.absent)


@dataclass(frozen=True)
class Recorded:
    """Numbers of an attempt; sends and receives count as collectives, once per member."""

    num_spans: int
    num_collectives: int
    num_ranks: int
    """ranks with records"""
    fronts: tuple[Front, ...]
    """those apart first, then the largest"""


def recorded(run: Run, attempt: int, stop: Stop | None = None) -> Recorded:
    """Counts of the records of an attempt; raises UserError."""
    text = (
        "SELECT (SELECT coalesce(sum(num_spans), 0) FROM step_rollup WHERE attempt = $attempt)"
        " AS spans, (SELECT coalesce(sum(num_instances), 0) FROM collective_rollup"
        " WHERE attempt = $attempt) AS collectives, (SELECT count(*) FROM"
        " (SELECT rank FROM step_rollup WHERE attempt = $attempt"
        " UNION SELECT rank FROM collective_rollup WHERE attempt = $attempt)) AS ranks"
    )
    [row] = run.index_rows(text, attempt=attempt)
    rows: list[dict[str, Any]] = []
    if row["collectives"]:
        rows = run.ask("outstanding", attempt=attempt, stop=stop).to_pylist()
    return Recorded(
        int(row["spans"]), int(row["collectives"]), row["ranks"], tuple(map(_front, rows))
    )


def _front(row: dict[str, Any]) -> Front:
    return Front(
        row["name"] or "",
        row["axis"],
        row["num_members"],
        row["num_open"],
        row["seq"],
        row["op"] or "",
        tuple(row["behind"] or ()),
        tuple(row["ahead"] or ()),
        row["ahead_seq"],
        tuple(row["absent"] or ()),
    )


def ranks_text(ranks: tuple[int, ...], longest: int = 40) -> str:
    """`8-11, 15`, cut to at most `longest` characters."""
    text = format_ranks(ranks).replace(",", ", ")
    return text if len(text) <= longest else f"{text[:longest].rpartition(',')[0]}, ..."
