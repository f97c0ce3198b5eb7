"""source_starved: a source of the mixture comes less often than planned.

The share of each source in what ranks have trained on is compared with the share that the job, or
the library that mixes them, plans. Batches differ by chance, and some jobs draw whole batches from
one source, so the error of the share is taken from how batches differ. A source that comes too
often takes the place of others: those that come too seldom are named, and it is in the text.

Source: OVERLORD (2504.09844): sources that run dry or lag behind change the mixture without a word.
Assumes: a library whose mixtures the hooks read, or tracer.batch(source=, planned=), on the ranks
that load. Blind spots: fewer than FEWEST samples; a plan that is wrong itself. Cost: a pass over
batch_sources.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from diagnosis.findings import Evidence, Finding, NotEnoughData, Verdict

NAME = "source_mix"
KINDS = ("source_starved",)
QUESTIONS = ("source_mix",)

FEWEST, FEWEST_BATCHES = 500, 30
"""Samples and batches before a share is judged."""

STARVED = 0.2
"""A source is named where this part of its planned share is missing."""

ERRORS = 5.0
"""And where that is so many standard errors."""


def detect(tables: Mapping[str, pa.Table], attempt: int) -> Verdict | None:
    """Verdict on the whole attempt; None where no batch states its sources."""
    rows = tables["source_mix"].to_pylist()
    if not rows:
        return None
    planned = [row for row in rows if row["planned"] is not None]
    if not planned:
        reason = "Batches state their sources, but no planned mixture to compare them with."
        return Verdict(NAME, not_enough=(NotEnoughData(NAME, reason),))
    if rows[0]["all_samples"] < FEWEST or rows[0]["batches"] < FEWEST_BATCHES:
        reason = f"Fewer than {FEWEST} samples or {FEWEST_BATCHES} batches state their source."
        return Verdict(NAME, not_enough=(NotEnoughData(NAME, reason),))
    starved = [row for row in planned if _missing(row) >= max(STARVED, _error(row))]
    if not starved:
        checked = f"The mixture of {len(planned)} sources is as planned."
        return Verdict(NAME, checked=checked)
    return Verdict(NAME, (_finding(starved, planned, attempt),))


def _missing(row: Mapping[str, Any]) -> float:
    """Part of the planned share that is missing."""
    return float(1 - row["ratio"] / row["planned"]) if row["planned"] > 0 else 0.0


def _error(row: Mapping[str, Any]) -> float:
    """What chance may take of it: at least the spread of single draws."""
    planned, samples = row["planned"], row["all_samples"]
    drawn = (planned * (1 - planned) / samples) ** 0.5
    return float(ERRORS * max(row["spread"], drawn) / planned)


def _finding(starved: list[dict[str, Any]], planned: list[dict[str, Any]], attempt: int) -> Finding:
    names = " and ".join(row["source"] for row in starved[:3])
    if len(starved) > 3:
        names = f"{starved[0]['source']} and {len(starved) - 1} more sources"
    more = [row for row in planned if row["ratio"] > row["planned"] * (1 + STARVED)]
    instead = f", while {more[0]['source']} comes more often" if more else ""
    is_one = len(starved) == 1
    title = (
        f"{'Source' if is_one else 'Sources'} {names} {'comes' if is_one else 'come'} too seldom"
    )
    first, last = starved[0]["first_step"], starved[0]["last_step"]
    params = (("attempt", attempt),)
    return Finding(
        kind="source_starved",
        attempt=attempt,
        severity="warning",
        confidence="high",
        title=title,
        text=f"{_share(starved[0])}, in steps {first} to {last}{instead}.",
        first_step=first,
        last_step=last,
        ongoing=True,
        evidence=tuple(
            Evidence(f"{_share(row)}.", 100 * row["ratio"], "%", "source_mix", params)
            for row in starved[:5]
        ),
        alternatives=("The plan has changed since.",),
        next_step=(
            "Look at the loader of this source: has it run out of data, does it skip samples, or "
            "is it so slow that the loader goes on without it?"
        ),
        cause=f"{title}: the model trains on another mixture than planned.",
    )


def _share(row: Mapping[str, Any]) -> str:
    return (
        f"{row['source']} has {100 * row['ratio']:.1f} % of {row['all_samples']:,} samples instead "
        f"of {100 * row['planned']:.1f} %"
    )
