"""What a run holds, in the keys of `rankscope info --json` (docs/cli.md)."""

from __future__ import annotations

from typing import Any, TypedDict

from ingest.readers import FORMATS, format_facts
from ingest.run import Run
from ingest.run_folder import native

LAYOUT_WORDS = {
    "job": "recorded by the job",
    "process groups": "inferred from process groups",
    "coordinates": "taken from coordinates in the files",
    "hand": "corrected by hand",
}
"""How a layout is known: `layout_from` -> in words."""


class ClockSummary(TypedDict):
    """What times mean and how well the ranks' clocks are aligned."""

    kind: str
    """absolute | per_step_relative | unknown"""
    max_err_ns: int | None
    """largest uncertainty of any rank's offset; None where one is unknown"""
    method: str
    """how the offsets were found; none where there are none"""


class RunSummary(TypedDict):
    """Ranks, world size and layout are those of the newest attempt; the rest is over all."""

    run: str
    format: str
    num_ranks: int
    world_size: int | None
    layout: dict[str, int] | None
    layout_from: str | None
    """how the layout is known, a key of LAYOUT_WORDS; None unknown"""
    attempts: int
    steps: list[int]
    num_spans: int
    events_per_rank: dict[str, int]
    problems: list[str]
    guesses: list[str]
    provenance: list[str]
    """files an import read, each with its bytes and a hash, and when"""
    clock: ClockSummary


def info(run: Run) -> RunSummary:
    """Summary of a run from its manifest and index, without opening its data."""
    per_attempt: list[dict[str, Any]] = run.ask("run_summary").to_pylist()
    newest: dict[str, Any] = per_attempt[-1] if per_attempt else {}
    attempt = newest.get("attempt", 0)
    layout = run.layout(attempt)
    ranks = {info["rank"] for info in run.ranks if info["attempt"] == attempt}
    world_size = newest.get("world_size")
    steps = run.index_rows("SELECT DISTINCT step FROM step_rows WHERE step >= 0 ORDER BY step")
    source = run.info["source"]
    return RunSummary(
        run=run.info["run"],
        format=source if source in FORMATS else native.NAME,
        num_ranks=max(len(ranks), newest.get("num_ranks", 0)),
        world_size=world_size if world_size is not None and world_size > 0 else None,
        layout=None if layout is None else dict(layout.axes),
        layout_from=layout_from(run, attempt),
        attempts=len(per_attempt),
        steps=[row["step"] for row in steps],
        num_spans=sum(row["num_spans"] for row in per_attempt),
        events_per_rank=run.info.get("events_per_rank", {}),
        problems=run.problems,
        guesses=run.info.get("guesses", []),
        provenance=run.info.get("provenance", []),
        clock=_clock(run, len(ranks)),
    )


def layout_from(run: Run, attempt: int | None = None) -> str | None:
    """How the layout of an attempt (default: the newest) is known, None where it is not."""
    if run.layout(attempt) is None:
        return None
    if run.is_layout_corrected:
        return "hand"
    return "job" if run.is_layout_recorded else format_facts(run.info["source"]).layout_from


def _clock(run: Run, num_ranks: int) -> ClockSummary:
    rows = run.index_rows(
        "SELECT method, count(*) AS num_ranks, min(err_ns) AS least, max(err_ns) AS most"
        " FROM clock_offsets WHERE attempt = (SELECT max(attempt) FROM clock_offsets)"
        " GROUP BY method ORDER BY num_ranks DESC, method"
    )
    is_all = bool(rows) and sum(row["num_ranks"] for row in rows) >= num_ranks
    known = is_all and all(row["least"] is not None and row["least"] >= 0 for row in rows)
    return ClockSummary(
        kind=run.info["clock"],
        max_err_ns=max(row["most"] for row in rows) if known else None,
        method=rows[0]["method"] if rows else "none",
    )
