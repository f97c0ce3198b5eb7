"""launch_skew, host_contention, slow_worker: a rank comes late though it computes and loads as fast
as its peers.

Its time beyond the peers' (diagnosis/statistics/phase_times.py) is neither compute, data,
collections nor checkpoints. Where it stands still decides the kind:

launch_skew      in host code, or in forwards alone: between operations, before collectives
host_contention  in forwards and backwards equally, wall time up and CPU time flat: it is kept from
                 its cores
slow_worker      outside of every phase of a log without communication: the other ranks'
                 compute timers hold their waiting for it, its own falls

Source: the rules are ours. Assumes: what delays it does so
in at least 4 of 5 steps of an episode (STEADY_SHARE). Known false positives: a rank that alone does
work for all (logging, saving) on purpose; where its role is unknown it is named only if it began
within the run. Blind spots: delays that move among ranks; jobs of fewer than 4 ranks.
Cost: one pass over the cells.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa

from diagnosis.detectors.rotating_skew import moving
from diagnosis.findings import Finding, NotEnoughData, Verdict
from diagnosis.statistics.episodes import OVER_AFTER_STEPS, Episode
from diagnosis.statistics.late_ranks import Late, late_by, late_by_one, meet, worth_telling
from diagnosis.statistics.peers import NOISE_MADS
from diagnosis.statistics.phase_findings import Lost, Words, finding_of, steps_missing
from diagnosis.statistics.phase_times import (
    IDLE,
    PhaseTimes,
    comparable,
    kept_from_cores,
    middle,
    phase_times,
)
from diagnosis.statistics.rank_tables import Floats
from diagnosis.statistics.step_levels import WARM_UP_STEPS

NAME = "launch_skew"
KINDS = ("launch_skew", "host_contention", "slow_worker")
QUESTIONS = ("rank_phases", "rank_places")

BOTH_WAYS = 0.25
"""Contention stretches forwards and backwards (about 1 to 2); what sits in one of them leaves the
other below a quarter of the sum."""

FORWARD_MADS = 2.25
"""1.5 sigma of Gaussian noise. On shared cores forwards and backwards are both stretched by
whatever runs there, so forwards alone have half of that noise and all of what sits in them. A sum
of votes z / 1.5 - 1 gets to MIN_VOTES by chance with a probability of about exp(-2 x 1.5^2 x 4) =
1.5e-8 per step and rank (Lundberg's bound of a random walk that drifts down); at z = 3 it takes
four steps."""

LEAST_SHARE = 0.06
"""Of a step: standing still shows less of its cause than compute does, so twice MIN_EXCESS."""

MOST_COMPUTE = 0.5
"""A rank whose compute beyond the peers' is more than this share of its standing still computes
longer: on shared cores more CPU time brings more standing still with it."""


def detect(tables: Mapping[str, pa.Table], attempt: int) -> Verdict:
    """Verdict on the steps in `tables`: answers of QUESTIONS for one attempt and range of steps."""
    times = phase_times(tables)
    if missing := steps_missing(NAME, times.step_S.size):
        return Verdict(NAME, not_enough=missing)
    if not comparable(times):
        reason = "Fewer than 4 ranks: coming late cannot be distinguished from having more work."
        return Verdict(NAME, not_enough=(NotEnoughData(NAME, reason),))
    findings, set_aside = _findings(times, attempt)
    checked = (
        f"No {'other ' if findings else ''}rank with as much compute and data wait as its peers "
        "arrived late by 6 % of a step, steadily and beyond what ranks swing by."
    )
    return Verdict(NAME, tuple(findings), checked, set_aside=tuple(set_aside))


def _findings(times: PhaseTimes, attempt: int) -> tuple[list[Finding], list[str]]:
    by_kind: dict[str, list[Late]] = {}
    lates = _lates(times)
    parts = {
        name: times.beyond_peers(name) for name in ("compute", "stretch", "rest", *IDLE) if lates
    }
    lates = [late for late in lates if not _computes_longer(parts, late)]
    lates, set_aside = worth_telling(times, lates)
    newest = times.step_S.size - 1 - OVER_AFTER_STEPS
    skewed = [] if times.waits_hidden or not lates else moving(times)
    for late in lates:
        always = late.episode.first <= WARM_UP_STEPS and late.episode.last >= newest
        if always and not times.has_roles:
            set_aside.append(
                f"Rank {times.ranks.rank_R[late.row]} spends {100 * late.share:.0f} % of each step "
                "more outside of its recorded phases from the first step on; ranks of "
                "other roles are compared, so this may be its share."
            )
            continue
        kind = _kind(times, parts, late)
        if kind != "launch_skew" or not any(_is_part(late.episode, episode) for episode in skewed):
            by_kind.setdefault(kind, []).append(late)
    findings = []
    for kind, lates in by_kind.items():
        findings += [
            finding_of(times, lost, attempt, words_of(times, kind, lost))
            for lost in _together(times, lates)
        ]
    return findings, set_aside


def _is_part(episode: Episode, moving: Episode) -> bool:
    """Whether a rank's turn is one of those that different ranks take (rotating_skew.py):
    of many ranks with random delays some come late several times in a row.
    """
    return moving.first <= episode.first and episode.last <= moving.last


def _lates(times: PhaseTimes) -> list[Late]:
    """Who stands still: in forwards alone, which shows most on shared cores; there also outside of
    all phases; or anywhere.
    """
    lates: list[Late] = []
    in_forward = late_by_one(times, IDLE[0], FORWARD_MADS)
    on_shared_cores = kept_from_cores(times) is not None
    outside = late_by_one(times, "rest", NOISE_MADS) if on_shared_cores else []
    for late in (*in_forward, *outside, *late_by(times, ("stretch", "rest"))):
        is_new = not any(late.row == o.row and meet(late.episode, o.episode) for o in lates)
        if is_new and late.share >= LEAST_SHARE:
            lates.append(late)
    return sorted(lates, key=lambda late: (late.row, late.episode.first))


def _computes_longer(parts: Mapping[str, Floats], late: Late) -> bool:
    span = slice(late.episode.first, late.episode.last + 1)
    return middle(parts["compute"][late.row, span]) > MOST_COMPUTE * late.share


def _kind(times: PhaseTimes, parts: Mapping[str, Floats], late: Late) -> str:
    if times.waits_hidden:
        return "slow_worker"
    span = slice(late.episode.first, late.episode.last + 1)
    idle = [max(middle(parts[name][late.row, span]), 0.0) for name in IDLE]
    stretched = middle(parts["stretch"][late.row, span]) > middle(parts["rest"][late.row, span])
    both = np.isfinite(idle).all() and min(idle) >= BOTH_WAYS * sum(idle) > 0
    return "host_contention" if stretched and both else "launch_skew"


def _together(times: PhaseTimes, lates: Sequence[Late]) -> list[Lost]:
    """One for all ranks of a host that are late together, else one each."""
    losses, left = [], list(lates)
    while left:
        late = left.pop(0)
        host = times.ranks.host_R[late.row]
        rows = {r for r, other in enumerate(times.ranks.host_R) if other == host}
        same = [late, *(o for o in left if o.row in rows and _overlap(late.episode, o.episode))]
        is_whole = host is not None and 1 < len(rows) < times.ranks.rank_R.size
        if not is_whole or {member.row for member in same} != rows:
            losses.append(Lost((late.row,), late.episode, late.share, late.row, late=late))
            continue
        left = [other for other in left if other not in same]
        worst = max(same, key=lambda member: member.share)
        losses.append(
            Lost(tuple(sorted(rows)), worst.episode, worst.share, worst.row, (str(host),))
        )
    return losses


def _overlap(episode: Episode, other: Episode) -> bool:
    shared = min(episode.last, other.last) - max(episode.first, other.first) + 1
    return shared > max(episode.last - episode.first, other.last - other.first) / 2


def words_of(times: PhaseTimes, kind: str, lost: Lost) -> Words:
    """The texts of a kind of late start."""
    who = f"Host {lost.hosts[0]}" if lost.hosts else f"Rank {times.ranks.rank_R[lost.rows[0]]}"
    loses, why, others, then = _TEXTS[kind]
    if kind == "launch_skew" and not (np.nan_to_num(times.phases["stretch"]) > 0).any():
        loses, why = _WITHOUT_CPU_TIME
    title, past = (f"{who} {does}" for does in _TITLES[kind])
    return Words(kind, title, loses, f"{title}: {why}", others, then, past=past)


_TITLES = {
    "launch_skew": ("starts late", "started late"),
    "host_contention": ("is kept from its cores", "was kept from its cores"),
    "slow_worker": ("is slow", "was slow"),
}

_WITHOUT_CPU_TIME = (
    "outside of its recorded phases",
    "what was recorded of its phases, communication left out, takes as long as its peers', but it "
    "comes last.",
)
"""What a log without CPU time shows of a late launch: neither operations nor collectives."""

_TEXTS: dict[str, tuple[str, str, tuple[str, ...], str]] = {
    "launch_skew": (
        "standing still before operations",
        "its compute and CPU time are as long as its peers', but it arrives last at collectives.",
        (
            "Host code between the operations (logging, locks, synchronisation) or launches that "
            "the host is late with: only stacks distinguish them.",
            "Another process on its host (host contention) that acts in one phase only.",
        ),
        "Look at what the host does before its collectives: sample its stacks, and look for "
        "locks, prints and synchronous copies that the others do not have.",
    ),
    "host_contention": (
        "standing still in compute without CPU time",
        "wall time of its compute is up and CPU time is not: something else runs on its cores.",
        (
            "Memory pressure of the host: page faults also stop a thread without CPU time.",
            "Sleeps or locks inside its own forward and backward passes (launch skew).",
        ),
        "Look at what else runs on the host (top, involuntary switches in /proc/PID/status) and at "
        "how the ranks are bound to cores.",
    ),
    "slow_worker": (
        "outside of all phases of the log",
        "the others wait for it inside their compute timers, and its own compute is shorter than "
        "theirs.",
        (
            "A slow device, another process on it, or host code outside of the timed phases: the "
            "log does not distinguish them.",
            "Launches that the host is late with (launch skew): the log has no collectives.",
        ),
        "Record some steps of it with hooks or a profiler: what runs between its timed phases "
        "delays the whole job.",
    ),
}
