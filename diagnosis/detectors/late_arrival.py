"""slow_worker in profiles of fewer than four steps: the rank that comes last again and again.

Too few steps to compare work step by step, but a step holds many collectives. Late arrival names
the culprit, not long calls: the late rank shows the shortest communication and often the shortest
step. A rank is named where it comes last more often than chance allows (binomial over its
collectives, all ranks tried), causes at least half of all waiting, and that costs at least 3 % of
the ranks' time.

Source: MegaScale (2402.15627). Assumes: all members of the
collectives were recorded, on aligned clocks. Known false positives: collectives of one step are not
independent, so one late moment (a profiler that starts later on one rank) can count several times:
confidence is low. Blind spots: why it is late; sends and receives. Cost: reads every collective of
these steps.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from diagnosis.findings import Evidence, Finding, NotEnoughData, Verdict, cost_of
from diagnosis.statistics.episodes import MIN_VOTES
from diagnosis.statistics.evidence_links import question_params, timeline_view
from diagnosis.statistics.phase_times import MIN_EXCESS, PhaseTimes, middle, phase_times
from diagnosis.statistics.shared_location import pipeline_ranks, place_of
from diagnosis.statistics.units import waits_of_each, when_text

NAME = "late_arrival"
KINDS = ("slow_worker",)
COUNTS = "late_counts"
"""Asked of runs of few steps only: it reads every collective."""
QUESTIONS = (COUNTS, "rank_phases", "rank_places")

BY_CHANCE = 0.05
"""What chance may reach over all ranks; a share of the waiting and a cost are needed as well."""
MOST_OF_WAITING = 0.5


@dataclass(frozen=True)
class _Counted:
    """The rank others wait for most."""

    row: int
    num_last: int
    num_instances: int
    caused_ms: float  # rank-ms over all steps
    of_all: float  # of all waiting caused
    share: float  # of all ranks' time
    by_chance: float


def detect(tables: Mapping[str, pa.Table], attempt: int) -> Verdict | None:
    """Verdict on the steps in `tables`: answers of QUESTIONS; None where there are enough steps to
    compare step by step.
    """
    if COUNTS not in tables:
        return None
    times = phase_times(tables)
    if times.step_S.size >= MIN_VOTES:
        return None
    counts = tables[COUNTS].to_pylist()
    if not counts or not times.step_S.size:
        reason = (
            "No collective with all its members on aligned clocks: who arrives last is not known."
        )
        return Verdict(NAME, not_enough=(NotEnoughData(NAME, reason),))
    if len(counts) < times.ranks.world_size:
        reason = (
            f"Collectives of {len(counts)} of {times.ranks.world_size} ranks are known whole: "
            "no rank is named for arriving last."
        )
        return Verdict(NAME, not_enough=(NotEnoughData(NAME, reason),))
    worst = _worst(times, counts)
    if worst is None or not _is_late(worst):
        reason = "No rank arrived last at collectives more often than by chance in so few steps."
        return Verdict(NAME, not_enough=(NotEnoughData(NAME, reason),))
    return Verdict(NAME, (_finding(times, worst, attempt),))


def _worst(times: PhaseTimes, counts: list[dict[str, Any]]) -> _Counted | None:
    worst = max(counts, key=lambda row: row["wait_caused_ms"])
    at = np.flatnonzero(times.ranks.rank_R == worst["rank"])
    total_ms = float(np.nansum(times.window_S)) * times.ranks.rank_R.size
    if worst["wait_caused_ms"] <= 0 or not at.size or total_ms <= 0:
        return None
    num, last = worst["num_instances"], worst["num_last"]
    caused_ms = worst["wait_caused_ms"]
    return _Counted(
        int(at[0]),
        last,
        num,
        caused_ms,
        caused_ms / sum(row["wait_caused_ms"] for row in counts),
        min(caused_ms / total_ms, 1.0),
        len(counts) * at_least(last, num, worst["chance"]),
    )


def at_least(hits: int, num: int, chance: float) -> float:
    """Probability of so many hits or more in `num` independent tries."""
    if hits <= 0 or chance >= 1.0:
        return 1.0
    if chance <= 0.0:
        return 0.0
    return min(math.fsum(_exactly(k, num, chance) for k in range(hits, num + 1)), 1.0)


def _exactly(hits: int, num: int, chance: float) -> float:
    """In logarithms: the number of ways is beyond a float from about 1,030 tries on."""
    ways = math.lgamma(num + 1) - math.lgamma(hits + 1) - math.lgamma(num - hits + 1)
    return math.exp(ways + hits * math.log(chance) + (num - hits) * math.log1p(-chance))


def _is_late(worst: _Counted) -> bool:
    return (
        worst.by_chance < BY_CHANCE
        and worst.of_all >= MOST_OF_WAITING
        and worst.share >= MIN_EXCESS
    )


def _finding(times: PhaseTimes, worst: _Counted, attempt: int) -> Finding:
    rank = int(times.ranks.rank_R[worst.row])
    first, last = int(times.step_S[0]), int(times.step_S[-1])
    per_step_ms = worst.caused_ms / times.step_S.size
    num_others = times.ranks.rank_R.size - 1
    params = question_params(first, last, attempt)
    ranks = pipeline_ranks(times.ranks, worst.row)
    if len(ranks) == 1:
        ranks = tuple(times.ranks.rank_R[:_MOST_LANES].tolist())
    link = timeline_view(attempt, rank, ranks, (first, last))
    return Finding(
        kind="slow_worker",
        attempt=attempt,
        severity="warning",
        confidence="low",
        title=f"Rank {rank} arrives last",
        text=f"It arrives last at {worst.num_last} of {worst.num_instances} collectives "
        f"{when_text(first, last, ongoing=True)}; {waits_of_each(num_others, per_step_ms)}.",
        culprits=(place_of(times.ranks, worst.row),),
        victims=tuple(r for r in times.ranks.rank_R.tolist() if r != rank),
        first_step=first,
        last_step=last,
        ongoing=True,
        cost=cost_of(
            per_step_ms / num_others, middle(times.window_S), times.step_S.size, num_others + 1
        ),
        evidence=(
            Evidence(
                f"It arrives last at {worst.num_last} of {worst.num_instances} collectives; chance "
                f"does that to one of the ranks with probability {worst.by_chance:.2g}.",
                worst.num_last,
                "collectives",
                COUNTS,
                params,
                link,
            ),
            Evidence(
                f"{100 * worst.of_all:.0f} % of all waiting in these steps is for it.",
                round(worst.of_all, 4),
                "share",
                COUNTS,
                params,
                link,
            ),
        ),
        alternatives=_ALTERNATIVES,
        next_step="Record ten steps or more, so that its work can be compared with its peers' step "
        "by step; meanwhile look at what its host does before its collectives.",
        cause=f"Rank {rank} arrives last at most collectives and the others wait for it; in so few "
        "steps it is not known why.",
    )


_MOST_LANES = 16
_ALTERNATIVES = (
    "One late moment, such as a profiler that began later on this rank: its collectives are of the "
    "same few steps.",
    "Launches that its host is late with (launch skew) or a slow data loader: so few "
    "steps cannot distinguish them from slow compute.",
)
