"""monitor_overhead: what records the job costs it too much, or loses what it recorded.

The hooks count the CPU time they take, on the training thread and on the one that writes, and the
rows they had to drop; each heartbeat carries both. What they take between two heartbeats counts
for the steps in between, over all ranks; a rank that they cost more than the others is named.

Source: below 3 % of a step attribution means nothing (what-if study, 2505.05713), so a monitor that
takes more than that spoils what it measures; published ones take 0.3 to 0.5 % (Greyhound,
Flare/XPUTimer). Assumes: heartbeats over MIN_ELAPSED_MS at least; answers begin after the steps of
warm-up, in which hooks are set up (app/views/run/hook_costs.py). Known false positives: the
writing thread runs in parallel to the job, so the whole of it is an upper bound of what the job
waits for. Blind spots: imported runs; time inside the profiler of another tool; since when, to less
than a heartbeat. Cost: one row per rank and per step.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from diagnosis.findings import Cost, Evidence, Finding, NotEnoughData, Verdict, cost_of
from diagnosis.statistics.episodes import OVER_AFTER_STEPS, Episode, episodes
from diagnosis.statistics.evidence_links import first_two, timeline_view
from diagnosis.statistics.phase_times import middle
from diagnosis.statistics.rank_tables import Floats, Ints, placed, spread_cells
from diagnosis.statistics.shared_location import place_of
from diagnosis.statistics.units import in_ms, steps_text, when_text

NAME = "monitor_overhead"
KINDS = ("monitor_overhead",)
QUESTIONS = ("hook_cost", "hook_cost_by_step", "hook_cost_by_source", "rank_phases", "rank_places")

MOST_COST = 0.03
"""Share of the time. Steps vote fully here, and begin to at half of it."""

MIN_ELAPSED_MS = 5_000.0
"""Heartbeats come each second: over fewer than five, setting up the hooks weighs too much."""

SETTLED_MS = 30_000.0
"""Setting up took 0.2 to 0.3 s in real jobs of 8 ranks on 2 cores: over the whole attempt that is
below MOST_COST after 10 s, so three times that is required. Steps show it earlier."""

MOST_NAMED = 0.5
"""Where more than this share of the ranks is concerned, the job is meant, not its ranks."""


@dataclass(frozen=True)
class _Cost:
    """What hooks cost: rows of hook_cost, and the job's share by step."""

    rows: list[dict[str, Any]]
    step_S: Ints
    share_S: Floats
    step_ms: float
    by_source: pa.Table  # hook_cost_by_source
    first_step: int  # after the earliest heartbeat

    @property
    def costly(self) -> list[dict[str, Any]]:
        """Ranks that they cost too much over the whole attempt."""
        return [row for row in self.rows if row["cost_ratio"] >= MOST_COST]

    @property
    def lossy(self) -> list[dict[str, Any]]:
        """Ranks that lost rows."""
        return [row for row in self.rows if row["dropped"] > 0]


def detect(tables: Mapping[str, pa.Table], attempt: int) -> Verdict:
    """Verdict on an attempt: answers of QUESTIONS."""
    rows = [row for row in tables["hook_cost"].to_pylist() if row["cost_ratio"] is not None]
    rows = [row for row in rows if row["elapsed_ms"] >= MIN_ELAPSED_MS]
    step_S, cells = spread_cells(tables["rank_phases"])[1:]
    if not rows or not step_S.size:
        reason = (
            "No heartbeats over five seconds of steps after warm-up: what the hooks cost is not "
            "judged."
        )
        return Verdict(NAME, not_enough=(NotEnoughData(NAME, reason),))
    shares = _by_step(tables["hook_cost_by_step"], step_S)
    first = int(np.isfinite(shares).argmax())  # 0 where none is known
    step_ms, by_source = middle(cells["step_ms"]), tables["hook_cost_by_source"]
    cost = _Cost(rows, step_S, shares, step_ms, by_source, int(step_S[first]))
    costly = [e for e in episodes(shares, MOST_COST / 2) if e.excess >= MOST_COST]
    whole = Episode(first, step_S.size - 1, max(row["cost_ratio"] for row in rows))
    is_settled = max(row["elapsed_ms"] for row in rows) >= SETTLED_MS
    if not costly and (cost.lossy or (is_settled and cost.costly)):
        costly = [whole]
    places = tables["rank_places"]
    findings = tuple(_finding(cost, episode, places, attempt) for episode in costly)
    mean = sum(row["cost_ratio"] for row in rows) / len(rows)
    checked = (
        f"The hooks take {100 * mean:.2g} % of the time, mean over ranks (the most on one rank: "
        f"{100 * whole.excess:.2g} %), and dropped no rows."
    )
    return Verdict(NAME, findings, None if findings else checked)


def _by_step(by_step: pa.Table, step_S: Ints) -> Floats:
    """The job's share by step: a heartbeat covers the steps since the one before."""
    beats = np.asarray(by_step.column("step").to_numpy(), np.int64)
    ratios = np.asarray(by_step.column("cost_ratio").cast(pa.float64()).to_numpy(), np.float64)
    if not beats.size:
        return np.full(step_S.size, np.nan)
    since = np.asarray(by_step.column("since_step").to_numpy(), np.int64)
    order = np.argsort(beats)
    beats, ratios, since = beats[order], ratios[order], since[order]
    at_S = np.searchsorted(beats, step_S)
    beat_S = np.minimum(at_S, beats.size - 1)
    is_known_S = (at_S < beats.size) & (step_S > since[beat_S])
    share_S: Floats = np.where(is_known_S, ratios[beat_S], np.nan)
    return share_S


def _finding(cost: _Cost, episode: Episode, places: pa.Table, attempt: int) -> Finding:
    first, last = int(cost.step_S[episode.first]), int(cost.step_S[episode.last])
    ongoing = cost.step_S.size - 1 - episode.last < OVER_AFTER_STEPS
    is_costly = episode.excess >= MOST_COST
    concerned = [row["rank"] for row in (cost.costly if is_costly else cost.lossy)]
    named = concerned if 0 < len(concerned) <= MOST_NAMED * len(cost.rows) else []
    ranks = placed(np.array(named, np.int64), places)
    who = f"rank{'s' if len(named) > 1 else ''} {_listed(named)}" if named else "the job"
    title = f"Recording costs {who} too much" if is_costly else f"Recording loses rows of {who}"
    since = when_text(first, last, ongoing)
    text = f"The hooks take {100 * episode.excess:.1f} % of the time of {who} {since}"
    dropped = sum(row["dropped"] for row in cost.lossy)
    text += f"; {dropped:,} rows were dropped, so the record has gaps." if dropped else "."
    return Finding(
        kind="monitor_overhead",
        attempt=attempt,
        severity="warning" if ongoing else "past",
        confidence="medium" if is_costly else "high",
        title=title,
        text=text,
        culprits=tuple(place_of(ranks, row) for row in range(len(named))),
        first_step=first,
        last_step=last,
        ongoing=ongoing,
        cost=_lost(cost, episode.excess, last - first + 1) if is_costly else None,
        evidence=_evidence(cost, episode, attempt),
        alternatives=(_COSTLY_OR if is_costly else _LOSSY_OR,),
        next_step="Record less (the level of the hooks, or fewer sources), or put the run folder on"
        " a faster disk; compare step times with the hooks off.",
        cause="What records the job takes its time."
        if is_costly
        else "Rows came faster than they could be written.",
    )


_COSTLY_OR = (
    "The thread that writes runs in parallel to the job: with a core to spare the job waits for "
    "less than that."
)
_LOSSY_OR = "The disk of the run folder is full or slow: the log of the job says so."


def _lost(cost: _Cost, share: float, num_steps: int) -> Cost | None:
    """The whole of it is an upper bound; the slowest rank sets the pace."""
    ms = min(share, 1.0) * cost.step_ms
    return cost_of(ms, cost.step_ms, num_steps, len(cost.rows))


def _evidence(cost: _Cost, episode: Episode, attempt: int) -> tuple[Evidence, ...]:
    worst = max(cost.rows, key=lambda row: row["cost_ratio"])
    rank, params = worst["rank"], (("attempt", attempt), ("step_min", cost.first_step))
    first, last = int(cost.step_S[episode.first]), int(cost.step_S[episode.last])
    link = timeline_view(attempt, rank, (rank,), first_two(first, last))
    share_S = cost.share_S[episode.first : episode.last + 1]
    evidence = [
        Evidence(
            f"On rank {rank}, the worst, hooks took {in_ms(worst['self_ms'])} CPU time of "
            f"{in_ms(worst['elapsed_ms'])} ({100 * worst['cost_ratio']:.1f} %).",
            round(worst["cost_ratio"], 5),
            "share",
            "hook_cost",
            params,
            link,
        )
    ]
    evidence += _by_source(cost.by_source, rank, params, link)
    if np.isfinite(share_S).any():
        evidence.append(
            Evidence(
                f"Over all ranks it is {100 * middle(share_S):.1f} % in {steps_text(first, last)}.",
                round(middle(share_S), 5),
                "share",
                "hook_cost_by_step",
                params,
                link,
            )
        )
    if cost.lossy:
        most = max(cost.lossy, key=lambda row: row["dropped"])
        evidence.append(
            Evidence(
                f"Rank {most['rank']} dropped {most['dropped']:,} rows; ranks that dropped some: "
                f"{len(cost.lossy)}.",
                float(most["dropped"]),
                "rows",
                "hook_cost",
                params,
                link,
            )
        )
    return tuple(evidence)


def _by_source(
    by_source: pa.Table, rank: int, params: tuple[Any, ...], link: tuple[Any, ...]
) -> list[Evidence]:
    """What most of a rank's cost is; nothing where its sources were not counted."""
    rows = by_source.filter(pc.equal(by_source["rank"], rank)).to_pylist()[:_MOST_SOURCES]
    if not rows or rows[0]["share"] is None:
        return []
    parts = [
        f"{row['source']} on thread {row['thread']} {100 * row['share']:.0f} %" for row in rows
    ]
    return [
        Evidence(
            f"Most of it on rank {rank}: {', '.join(parts)}.",
            round(rows[0]["share"], 5),
            "share",
            "hook_cost_by_source",
            params,
            link,
        )
    ]


_MOST_SOURCES = 3
_MOST_LISTED = 5


def _listed(ranks: list[int]) -> str:
    more = f" and {len(ranks) - _MOST_LISTED} more" if len(ranks) > _MOST_LISTED else ""
    return ", ".join(map(str, ranks[:_MOST_LISTED])) + more
