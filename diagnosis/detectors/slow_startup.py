"""slow_startup: some ranks kept the job waiting before its first step, or its process groups did.

The start-up of each rank is recorded by phases (docs/goodput.md). Ranks are named where they spent
far longer in a phase than the others, and the others waited for it; making process groups where it
takes long on every rank. Assumes: a phase takes the same on all ranks. Known false positives: a
rank that prepares something for all of them, as it should. Blind spots: what is slow on half of
the ranks or more; ranks of one-rank jobs; storage that is slow for all. Cost: one pass over some
rows a rank.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa

from diagnosis.findings import Evidence, Finding, Place, Verdict
from diagnosis.goodput.phase_words import DOING, ranks_in_words
from diagnosis.goodput.slow_start import ManyGroups, Slow, many_groups, slow_phases
from diagnosis.goodput.startup import QUESTIONS as ASKED
from diagnosis.goodput.startup import RankStart, starts_of

NAME = "slow_startup"
KINDS = ("slow_startup",)
QUESTIONS = ASKED
MOST_FINDINGS = 3

_NEXT = {
    "before": "Call trace_hooks.start first, to see what it is. As a rule it is imports: look at "
    "where these ranks import from; `python -X importtime` lists them.",
    "imports": "Look at where these ranks import from: a slow file system, or packages that the "
    "others have in their cache. `python -X importtime` lists them.",
    "restore": "Compare how fast that host reads the checkpoint's storage, and whether these ranks "
    "read more than the others (rankscope query RUN first_steps: read_bytes).",
    "compile": "See whether the compiler's cache is shared by the ranks (TORCHINDUCTOR_CACHE_DIR), "
    "and whether these ranks compile more graphs.",
    "data": "See what these ranks do for their first batch: rankscope query RUN data_wait.",
    "groups": "Make fewer groups, or all at once with init_device_mesh; each new_group is a "
    "collective of all ranks.",
}
_LOOK = "Look at that line of the job's code on these ranks."


def detect(tables: Mapping[str, pa.Table], attempt: int) -> Verdict | None:
    """Verdict on the start of an attempt; None where its start-up was not recorded."""
    starts = starts_of(tables)
    recorded = [start for start in starts if start.is_recorded]
    if not recorded:
        return None
    is_over = all(start.is_over for start in recorded)
    slow = slow_phases(starts)[:MOST_FINDINGS]
    findings = [_of_ranks(one, starts, attempt, is_over) for one in slow]
    groups = many_groups(starts) if is_over else None
    if groups is not None and not any(one.phase == "groups" for one in slow):
        findings.append(_of_groups(groups, starts, attempt))
    checked = f"The start-up of {len(recorded)} ranks was compared, phase by phase."
    return Verdict(NAME, tuple(findings), None if findings else checked, of_data=True)


def _of_ranks(slow: Slow, starts: Sequence[RankStart], attempt: int, is_over: bool) -> Finding:
    who, doing = ranks_in_words(slow.ranks), DOING[slow.phase]
    hosts = {start.rank: start.host for start in starts}
    spent = "spent" if is_over else "has spent" if len(slow.ranks) == 1 else "have spent"
    each = " each" if len(slow.ranks) > 1 else ""
    sentence = (
        f"{who[0].upper()}{who[1:]} {spent} {slow.seconds:.1f} s{each} {doing} ({slow.what}), "
        f"the others {slow.usual_s:.1f} s."
    )
    then = (
        f"Without that, the first step would have ended up to {slow.cost_s:.1f} s earlier."
        if is_over
        else f"The others have waited {slow.cost_s:.1f} s for that."
    )
    return Finding(
        kind="slow_startup",
        attempt=attempt,
        severity="past" if is_over else "warning",
        confidence="medium" if slow.phase == "other" else "high",
        title=f"Slow start: {who}, {doing}",
        text=f"{sentence} {then}",
        culprits=tuple(Place(rank, hosts.get(rank)) for rank in slow.ranks),
        first_step=_step(starts),
        last_step=_step(starts),
        ongoing=not is_over,
        slowdown=slow.seconds / slow.usual_s if slow.usual_s > 0 else None,
        evidence=(_evidence(sentence, slow.seconds, attempt, slow.ranks[0]),),
        alternatives=(),
        next_step=_NEXT.get(slow.phase, _LOOK),
        cause=f"{who[0].upper()}{who[1:]} took long {doing}: {slow.what}.",
    )


def _of_groups(groups: ManyGroups, starts: Sequence[RankStart], attempt: int) -> Finding:
    each_ms = 1000 * groups.seconds / max(groups.num_groups, 1)
    sentence = (
        f"Making {groups.num_groups} process groups took every rank {groups.seconds:.1f} s of a "
        f"start-up of {groups.start_s:.1f} s, {each_ms:.0f} ms a group."
    )
    return Finding(
        kind="slow_startup",
        attempt=attempt,
        severity="past",
        confidence="high",
        title=f"Slow start: making {groups.num_groups} process groups",
        text=sentence,
        first_step=_step(starts),
        last_step=_step(starts),
        ongoing=False,
        evidence=(_evidence(sentence, groups.seconds, attempt),),
        alternatives=(
            "One rank may be slow inside of it: all members of a group wait for each other.",
        ),
        next_step=_NEXT["groups"],
    )


def _evidence(sentence: str, seconds: float, attempt: int, rank: int | None = None) -> Evidence:
    view = () if rank is None else (("rank", rank),)
    at = (("attempt", attempt),)
    return Evidence(
        sentence, round(seconds, 3), "s", "startup", at, (("page", "efficiency"), *view)
    )


def _step(starts: Sequence[RankStart]) -> int:
    """The first step that any rank has finished."""
    steps = [start.first_step for start in starts if start.first_step is not None]
    return max(min(steps, default=0), 0)
