"""slow_op: since some step one named operation takes longer, on all ranks equally.

All ranks compute longer than before (diagnosis/statistics/onsets.py), and one name makes up nearly
all of the rise, on each of the ranks looked at. Spans hold others inside: of several names that
make up the rise the innermost is named, and none where it only holds several others that rose. A
span may hold waiting for other ranks, above all the last one before a collective; so most spans of
the name must have become longer, not only some of each step.

Typical causes: a kernel that is slow for a shape, a library that was changed, a
fallback. Within one run it shows against its own past alone; an operation that has always been slow
shows only against a baseline run. Assumes: operations have names of their own (hooks on layers,
kernels of a profiler). Known false positives: more of that operation on purpose (longer sequences
for attention). Blind spots: an operation that has no span; one that is slow for rare shapes only,
which jit_spikes may report. Cost: reads the spans of two ranks per pipeline stage (16 at most) in
the newest 200 steps.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from diagnosis.findings import Evidence, Finding, NotEnoughData, Verdict
from diagnosis.statistics.onsets import (
    MIN_RISE,
    Onset,
    evidence_of,
    not_comparable,
    onsets,
    wall_share,
)
from diagnosis.statistics.phase_findings import Lost, Words, finding_of
from diagnosis.statistics.phase_times import PhaseTimes, kept_from_cores, middle, phase_times
from diagnosis.statistics.rank_tables import spread_cells
from diagnosis.statistics.step_levels import (
    CLEAR_FOR_LONG,
    WARM_UP_STEPS,
    beyond_swings,
    longer_by,
)
from diagnosis.statistics.units import in_ms

NAME = "slow_op"
KINDS = ("slow_op",)
QUESTIONS = ("op_times", "rank_phases", "rank_places")

MAIN_SHARE, LEAST_SHARE = 0.8, 0.5
"""One name makes up the rise where it is four fifths of it on the median rank, and half of it on
each. Where it is four fifths on each, and the name takes MUCH_LONGER, confidence is high."""
MUCH_LONGER = 0.25

LEAST_RISE = 0.03
"""Of all compute. Less than what the whole job is asked for (MIN_RISE of onsets.py): that one name
makes up the rise on each rank is a sign of its own. Then steps have to be longer, too."""

BEYOND_OTHERS = 2.0
"""The name takes longer by at least so many times what the rest of compute does, each as a share of
its own time: where everything takes longer, the name with most time rises most."""


PASSES = ("forward", "backward", "wgrad", "compute")
"""Spans named like what they are hold all operations of a pass, and name none of them."""


@dataclass(frozen=True)
class Op:
    """An operation and its time per step on the median of the ranks looked at, ms."""

    name: str
    depth: int
    before_ms: float
    longer_ms: float
    is_behind: bool  # makes up what each of these ranks computes longer
    is_sure: bool = False  # nearly all of it on each, and much of what it took before


def detect(tables: Mapping[str, pa.Table], attempt: int) -> Verdict:
    """Verdict on the steps in `tables`: answers of QUESTIONS for one attempt and range of steps."""
    times = phase_times(tables)
    if missing := not_comparable(NAME, times):
        return Verdict(NAME, not_enough=missing)
    if (kept := kept_from_cores(times)) is not None:
        return Verdict(NAME, not_enough=(NotEnoughData(NAME, kept),))
    felt = [onset for onset in onsets(times, LEAST_RISE) if _is_felt(times, onset)]
    behind = [(onset, op_behind(times, tables["op_times"], onset)) for onset in felt]
    findings = tuple(_finding(times, onset, op, attempt) for onset, op in behind if op is not None)
    checked = None if behind else "No one operation makes all ranks compute longer than before."
    if behind and not findings:
        checked = "No one operation makes up what the job computes longer since some step."
    return Verdict(NAME, findings, checked, of_data=True)  # says nothing of single ranks


def _is_felt(times: PhaseTimes, onset: Onset) -> bool:
    """Whether steps are longer for a small rise, by half of it and by more than they swing."""
    if onset.episode.excess >= MIN_RISE:
        return True
    first, last = onset.episode.first - WARM_UP_STEPS, onset.episode.last - WARM_UP_STEPS
    known_S = times.window_S[WARM_UP_STEPS:]
    longer = longer_by(known_S, first, last)
    is_clear = beyond_swings(known_S, first, last) >= CLEAR_FOR_LONG
    return longer >= wall_share(times, onset) / 2 and is_clear


def op_behind(times: PhaseTimes, op_times: pa.Table, onset: Onset) -> Op | None:
    """The innermost operation that makes up the rise on all ranks looked at; None: no one."""
    steps = times.step_S[[onset.episode.first, onset.episode.last]].tolist()
    names = [name for name in pc.unique(op_times["name"]).to_pylist() if name not in PASSES]
    ops = [_op(times, op_times, name, steps) for name in names]
    known = [op for op in ops if op is not None]
    behind = max((op for op in known if op.is_behind), key=lambda op: op.depth, default=None)
    compute_ms = middle(times.phases["compute"][:, : onset.episode.first])
    if behind is None or behind.before_ms >= _ALL_OF_IT * compute_ms:
        return None
    inside = [op for op in known if op.depth == behind.depth + 1]
    if sum(op.longer_ms for op in inside) >= LEAST_SHARE * behind.longer_ms:
        return None  # it only holds several that rose
    return behind


_ALL_OF_IT = 0.9
"""Where nearly all compute has one name, that says no more than that compute takes longer."""


def _op(times: PhaseTimes, op_times: pa.Table, name: str, steps: list[int]) -> Op | None:
    """How an operation changed with these steps, and whether it makes up what each rank did."""
    rows = op_times.filter(pc.equal(op_times["name"], name))
    depth = pc.min(rows["depth"]).as_py()
    rank_R, step_S, cells = spread_cells(rows.select(["rank", "step", "typical_ms"]))
    now_S, before_S = (step_S >= steps[0]) & (step_S <= steps[1]), step_S < steps[0]
    if not (now_S.any() and before_S.any() and np.isin(rank_R, times.ranks.rank_R).all()):
        return None
    at = np.searchsorted(times.ranks.rank_R, rank_R)
    busy_RS = times.phases["compute"][at] + times.phases["stretch"][at]
    was_S = np.isin(times.step_S, step_S[before_S])
    is_S = (times.step_S >= steps[0]) & (times.step_S <= steps[1])
    before_R = np.array([middle(row_S[before_S]) for row_S in cells["typical_ms"]])
    longer_R = np.array([middle(row_S[now_S]) for row_S in cells["typical_ms"]]) - before_R
    risen_R = np.array([middle(row_S[is_S]) - middle(row_S[was_S]) for row_S in busy_RS])
    share_R = np.divide(longer_R, risen_R, out=np.zeros(at.size), where=risen_R > 0)
    is_behind = bool(share_R.min() >= LEAST_SHARE and np.median(share_R) >= MAIN_SHARE)
    rest_R = np.array([middle(row_S[was_S]) for row_S in busy_RS]) - before_R
    beyond_R = longer_R * rest_R - BEYOND_OTHERS * (risen_R - longer_R) * before_R
    is_behind &= bool(np.median(beyond_R) >= 0)
    is_sure = bool(share_R.min() >= MAIN_SHARE and (longer_R >= MUCH_LONGER * before_R).all())
    return Op(name, int(depth), middle(before_R), middle(longer_R), is_behind, is_sure)


def _finding(times: PhaseTimes, onset: Onset, op: Op, attempt: int) -> Finding:
    lost = Lost((), onset.episode, wall_share(times, onset), 0)
    finding = finding_of(times, lost, attempt, _words(op))
    ratio = 1 + op.longer_ms / op.before_ms if op.before_ms > 0 else None
    op_evidence = Evidence(
        f"The spans named {op.name}, each as long as their median, take "
        f"{in_ms(op.before_ms + op.longer_ms)} per step on the median of the ranks looked at, "
        f"after {in_ms(op.before_ms)} before.",
        round(op.before_ms + op.longer_ms, 3),
        "ms",
        "op_times",
        finding.evidence[0].params,
        finding.evidence[0].view,
    )
    return replace(
        finding,
        slowdown=None if ratio is None else round(ratio, 4),
        evidence=(op_evidence, evidence_of(times, onset, finding), *finding.evidence),
    )


def _words(op: Op) -> Words:
    name = op.name
    return Words(
        "slow_op",
        f"Operation {name} takes longer on all ranks than before",
        f"to operation {name}, which all ranks have become slower at",
        f"One operation, {name}, takes longer than before on all ranks; the others do not.",
        (
            "More of this operation on purpose: longer sequences, larger batches.",
            "What it holds inside and has no span of its own.",
        ),
        "Profile one rank for a few steps before and after: look for another kernel or algorithm, "
        "a fallback, a changed shape or dtype of this operation.",
        confidence="high" if op.is_sure else "medium",
    )
