"""link_flap: now and then a transfer of one link takes far longer, and the next ones are normal.

A port that goes down and comes up stops what is under way on it. What lasts for four steps is
slow_link; what strikes most channels at once is the job that stood still. A link is named where
its transfers were struck more often than those of ranks elsewhere would be by chance (binomial,
all channels tried) and three times as often as any, or once for a second and longer.

Source: single operations last for seconds, then all is normal, because InfiniBand and RoCE
retry for about 1 to 4 s before they give up (NCCL_IB_TIMEOUT). Assumes: aligned clocks,
collectives with all members recorded. Known false positives: a process that is stopped inside
collectives, which looks the same. Blind spots: flaps that end the job; connections made late look
like one flap. Cost: one pass over the steps of each channel.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from diagnosis.detectors.late_arrival import at_least
from diagnosis.findings import Evidence, Finding, NotEnoughData, Verdict, cost_of
from diagnosis.statistics.episodes import MIN_VOTES
from diagnosis.statistics.evidence_links import question_params, timeline_view
from diagnosis.statistics.phase_findings import URGENT_SHARE
from diagnosis.statistics.phase_times import kept_from_cores, middle, phase_times
from diagnosis.statistics.rank_tables import Bools, Floats, Ints
from diagnosis.statistics.shared_location import place_of
from diagnosis.statistics.transfer_times import (
    LEAST_COST,
    Transfers,
    transfers_missing,
    transfers_of,
)
from diagnosis.statistics.transfer_times import QUESTIONS as QUESTIONS
from diagnosis.statistics.units import in_ms

NAME = "link_flap"
KINDS = ("link_flap",)

TIMES_USUAL = 5.0
"""Beyond the usual longest transfer of a step; transfers vary by less on a network that works."""

BY_CHANCE = 0.01
"""What chance may reach over all channels."""

TIMES_OTHERS = 3
"""And so many times as often as any other channel: chance is not the same everywhere."""

ONCE_MS, TIMES_ONCE = 1_000.0, 10.0
"""A single standstill is a finding from a second on: what retries take."""

WARM_UP = 2
"""The first steps make connections: a single standstill there is none."""

MOST_STRUCK = 0.5
"""Where more than this share of the channels stood still, the job did, not a link."""


@dataclass(frozen=True)
class _Flap:
    """Channels that stood still together, and their steps as indices."""

    channels: tuple[int, ...]
    steps: tuple[int, ...]
    lost_ms: float


def detect(tables: Mapping[str, pa.Table], attempt: int) -> Verdict:
    """Verdict on the steps in `tables`: answers of QUESTIONS for one attempt and range of steps."""
    transfers = transfers_of(tables)
    if missing := transfers_missing(NAME, transfers):
        return Verdict(NAME, not_enough=missing)
    if (kept := kept_from_cores(phase_times(tables))) is not None:
        return Verdict(NAME, not_enough=(NotEnoughData(NAME, kept),))
    beyond_KS = transfers.longest_KS - _usual(transfers)
    struck_KS = _struck(transfers, beyond_KS)
    flaps = _flaps(transfers, struck_KS, beyond_KS)
    findings = tuple(_finding(transfers, flap, attempt) for flap in flaps)
    checked = f"No {'other ' if findings else ''}link stalled its transfers now and then."
    return Verdict(NAME, findings, checked)


def _usual(transfers: Transfers) -> Floats:
    """The usual longest transfer of a step, ms, by channel."""
    return np.array([middle(longest_S) for longest_S in transfers.longest_KS]).reshape(-1, 1)


def _struck(transfers: Transfers, beyond_KS: Floats) -> Bools:
    """Steps with a transfer far beyond the usual, for fewer than four steps on end, on few
    channels.
    """
    with np.errstate(invalid="ignore"):
        struck_KS = (beyond_KS > TIMES_USUAL * _usual(transfers)) & (
            beyond_KS > LEAST_COST * transfers.window_S
        )
        known_S = np.isfinite(beyond_KS).sum(axis=0)
    if len(transfers.channels) > 1:
        struck_KS &= struck_KS.sum(axis=0) <= np.maximum(MOST_STRUCK * known_S, 1)
    for struck_S in struck_KS:
        edges = np.flatnonzero(np.diff(np.concatenate(([0], struck_S.astype(np.int8), [0]))))
        for begin, end in edges.reshape(-1, 2):
            if end - begin >= MIN_VOTES or end == struck_S.size:  # lasts, or may
                struck_S[begin:end] = False
    return struck_KS


def _flaps(transfers: Transfers, struck_KS: Bools, beyond_KS: Floats) -> list[_Flap]:
    """Channels beyond chance; those that share ranks and steps are one flap."""
    flaps: list[_Flap] = []
    for k in np.flatnonzero(struck_KS.any(axis=1)).tolist():
        steps = np.flatnonzero(struck_KS[k])
        if not _beyond_chance(transfers, struck_KS, k) and not _once(
            transfers, beyond_KS, k, steps
        ):
            continue
        merged = _Flap((k,), tuple(steps.tolist()), float(beyond_KS[k, steps].sum()))
        ranks = set(transfers.channels[k].ranks)
        for other in [
            flap
            for flap in flaps
            if set(flap.steps) & set(merged.steps)
            and any(ranks & set(transfers.channels[c].ranks) for c in flap.channels)
        ]:
            flaps.remove(other)
            merged = _Flap(
                (*other.channels, *merged.channels),
                tuple(sorted({*other.steps, *merged.steps})),
                max(other.lost_ms, merged.lost_ms),
            )
        flaps.append(merged)
    return flaps


def _beyond_chance(transfers: Transfers, struck_KS: Bools, k: int) -> bool:
    """Whether others, that share no rank with it, are struck so much more rarely."""
    ranks = set(transfers.channels[k].ranks)
    others = [c for c, channel in enumerate(transfers.channels) if not ranks & set(channel.ranks)]
    num_steps = struck_KS.shape[1]
    chance = (int(struck_KS[others].sum()) + 1) / (len(others) * num_steps + 1)
    hits = int(struck_KS[k].sum())
    if hits < TIMES_OTHERS * max(struck_KS[others].sum(axis=1), default=0):
        return False
    by_chance = len(transfers.channels) * at_least(hits, num_steps, min(chance, 1.0))
    return bool(others) and hits > 1 and by_chance < BY_CHANCE


def _once(transfers: Transfers, beyond_KS: Floats, k: int, steps: Ints) -> bool:
    late = steps[steps >= WARM_UP]
    usual_ms = middle(transfers.longest_KS[k])
    return bool((beyond_KS[k, late] > max(ONCE_MS, TIMES_ONCE * usual_ms)).any())


def _rows(transfers: Transfers, flap: _Flap) -> tuple[int, ...]:
    """Rows of the ranks that all struck channels share, else of the smallest channel."""
    shared = set.intersection(*(set(transfers.channels[k].rows) for k in flap.channels))
    smallest = min((transfers.channels[k].rows for k in flap.channels), key=len)
    return tuple(sorted(shared or smallest))


def _finding(transfers: Transfers, flap: _Flap, attempt: int) -> Finding:
    rows = _rows(transfers, flap)
    ranks = tuple(transfers.ranks.rank_R[list(rows)].tolist())
    low, high = flap.steps[0], flap.steps[-1]
    first, last = int(transfers.step_S[low]), int(transfers.step_S[high])
    gap = max(np.diff(flap.steps), default=1)
    ongoing = bool(transfers.step_S.size - 1 - high <= gap)
    per_step_ms = flap.lost_ms / (high - low + 1)
    step_ms = middle(transfers.window_S[low : high + 1])
    share = min(per_step_ms / step_ms, 1.0)
    between = " and " if len(ranks) == 2 else ", "
    who = f"Link of rank{'s' if len(ranks) > 1 else ''} {between.join(map(str, ranks[:8]))}"
    num = len(flap.steps)
    when = f"in {num} steps from {first} to {last}" if num > 1 else f"in step {first}"
    num_ranks = transfers.ranks.rank_R.size
    urgent = "urgent" if share >= URGENT_SHARE else "warning"
    return Finding(
        kind="link_flap",
        attempt=attempt,
        severity=urgent if ongoing else "past",
        confidence="high" if len(flap.steps) > 1 else "medium",
        title=f"{who} {'halts at times' if num > 1 else 'halted'}",
        text=f"Single transfers stopped {when}, for {in_ms(flap.lost_ms)} in all, and went on as "
        "before.",
        culprits=tuple(place_of(transfers.ranks, row) for row in rows),
        first_step=first,
        last_step=last,
        ongoing=ongoing,
        cost=cost_of(per_step_ms, step_ms, high - low + 1, num_ranks),
        evidence=_evidence(transfers, flap, attempt, ranks),
        alternatives=_ALTERNATIVES,
        next_step="Read the link-down counters and the kernel log of the hosts at these times "
        "(ibstat, ethtool -S, dmesg), and those of the ports of the switch.",
        cause=f"{who}: single transfers took far longer and those after them were normal, as when "
        "a port goes down and comes up.",
    )


def _evidence(
    transfers: Transfers, flap: _Flap, attempt: int, ranks: Sequence[int]
) -> tuple[Evidence, ...]:
    steps = list(flap.steps)
    k = max(
        flap.channels, key=lambda channel: float(np.nanmax(transfers.longest_KS[channel, steps]))
    )
    worst = steps[int(np.nanargmax(transfers.longest_KS[k, steps]))]
    longest_ms, step = float(transfers.longest_KS[k, worst]), int(transfers.step_S[worst])
    params = question_params(step, step, attempt)
    link = timeline_view(attempt, ranks[0], tuple(ranks[:16]), (step, step))
    listed = ", ".join(str(transfers.step_S[at]) for at in steps[:8])
    more = f" and {len(steps) - 8} others" if len(steps) > 8 else ""
    return (
        Evidence(
            f"The longest transfer of step {step} took {in_ms(longest_ms)}; the longest of a step "
            f"usually takes {in_ms(middle(transfers.longest_KS[k]))}.",
            round(longest_ms, 3),
            "ms",
            "transfers",
            params,
            link,
        ),
        Evidence(
            f"So it was in {len(steps)} of {transfers.step_S.size} steps ({listed}{more}), on "
            f"{len(flap.channels)} of {len(transfers.channels)} groups and links.",
            len(steps),
            "steps",
            "transfers",
            question_params(
                int(transfers.step_S[steps[0]]), int(transfers.step_S[steps[-1]]), attempt
            ),
            link,
        ),
    )


_ALTERNATIVES = (
    "A process that is stopped inside collectives (a debugger, memory pressure): it looks the "
    "same without the host's log.",
    "NIC, cable or port of either end, or the switch between them.",
)
