"""loader_standby: a standby data loader falls behind, or its snapshots grow old.

The last third of a rank's reports is compared with its first third, and with the first third of the
median rank. Whoever takes over from it reads so many samples again, or leaves them out.

Source: OVERLORD (arXiv 2504.09844), whose standby loaders follow by snapshots. Assumes: the job
states the lag (tracer.standby). Known false positives: a standby that is meant to be started late.
Blind spots: a lag that was as large from the first report on, on all ranks. Cost: a small table.
"""

from __future__ import annotations

from collections.abc import Mapping
from statistics import median
from typing import Any

import pyarrow as pa

from diagnosis.findings import Evidence, Finding, NotEnoughData, Place, Verdict

NAME = "loader_standby"
KINDS = ("loader_standby",)
QUESTIONS = ("loader_standby",)

FEWEST = 9
"""Reports of a rank."""

TIMES = 3.0
"""A lag, or an age, is worth a word that is so many times the usual one."""

LEAST_SAMPLES, LEAST_S = 32, 60.0
"""... and longer by so much."""

MANY = 5
"""Ranks that are named one by one."""


def detect(tables: Mapping[str, pa.Table], attempt: int) -> Verdict | None:
    """Verdict on the steps in `tables`; None where no job states it."""
    rows = tables["loader_standby"].to_pylist()
    if not rows:
        return None
    seen = [row for row in rows if row["reports"] >= FEWEST]
    if not seen:
        reason = f"No rank stated {FEWEST} times how far its standby loader is behind."
        return Verdict(NAME, not_enough=(NotEnoughData(NAME, reason),))
    behind = _grown(seen, "samples", LEAST_SAMPLES)
    old = [row for row in _grown(seen, "age_s", LEAST_S) if row not in behind]
    findings = [
        _finding(found, unit, attempt)
        for found, unit in ((behind, "samples"), (old, "age_s"))
        if found
    ]
    checked = f"No {'other ' if findings else ''}standby loader of {len(seen)} falls behind."
    return Verdict(NAME, tuple(findings), checked)


def _grown(rows: list[dict[str, Any]], unit: str, least: float) -> list[dict[str, Any]]:
    """Those whose last third is far beyond their own first third and that of the median rank."""
    known = [row for row in rows if None not in (row[f"begin_{unit}"], row[f"end_{unit}"])]
    if not known:
        return []
    usual = median(row[f"begin_{unit}"] for row in known)

    def grew(row: Mapping[str, Any]) -> bool:
        before, end = max(row[f"begin_{unit}"], usual), row[f"end_{unit}"]
        return bool(end - before >= least and end >= TIMES * before)

    return [row for row in known if grew(row)]


def _finding(rows: list[dict[str, Any]], unit: str, attempt: int) -> Finding:
    worst = max(rows, key=lambda row: row[f"end_{unit}"])
    ranks = [row["rank"] for row in rows]
    who = f"rank{'s' if len(ranks) > 1 else ''} " + ", ".join(map(str, ranks[:MANY]))
    who += f" and {len(ranks) - MANY} more" if len(ranks) > MANY else ""
    begin, end = worst[f"begin_{unit}"], worst[f"end_{unit}"]
    newest = worst[f"newest_{unit}"]
    is_over = newest is None or newest < end / 2
    if unit == "samples":
        title = f"The standby loader of {who} falls behind"
        now = f"{newest:,.0f} samples behind"
        levels, does = f"from {begin:,.0f} to {end:,.0f} samples", "it does not read as fast"
    else:
        title = f"The standby loader of {who} has an old snapshot"
        now = f"{newest:.0f} s old"
        levels, does = f"from {begin:.0f} to {end:.0f} s", "snapshots are not taken any more"
    text = f"is {now}: if it took over, that much would be read again or left out."
    if is_over:
        text = "has caught up since."
    return Finding(
        kind="loader_standby",
        attempt=attempt,
        severity="past" if is_over else "warning",
        confidence="medium",
        title=title,
        text=f"That of rank {worst['rank']} {text}",
        culprits=tuple(Place(rank) for rank in ranks),
        first_step=max(worst["first_step"], 0),
        last_step=max(worst["last_step"], 0),
        ongoing=not is_over,
        evidence=(
            Evidence(
                f"On rank {worst['rank']} it grew {levels} from the first third of "
                f"{worst['reports']} reports to the last.",
                float(end),
                "samples" if unit == "samples" else "s",
                "loader_standby",
                (("attempt", attempt),),
            ),
        ),
        alternatives=(),
        next_step="Look at the process of the standby loader: whether it runs, waits for storage, "
        "or gets no snapshots.",
        cause=f"{title}: {does}.",
    )
