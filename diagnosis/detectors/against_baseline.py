"""step_regression, comm_regression: the whole job is slower than a run that is known to be good.

What is equally slow everywhere does not show within one run. Against a baseline of the same job,
steps that take longer are step_regression; where communication takes longer while nobody waits, it
is comm_regression: transfers of every set of comparable channels
(diagnosis/statistics/transfer_times.py). Where transfers are not known, the least communication of
any rank in a step stands for them: the last to arrive waits for nobody.

Source: the rule is ours. Assumes: the same model, layout and number
of ranks; the first steps (compiling, warming up) are left out of both. Known false positives:
another batch size, sequence length or data. Blind spots: a regression below 3 % of a step; some
groups that always were slower than in the baseline while others were not. Cost: one pass over the
cells and channels of both runs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from diagnosis.cost_text import cost_text
from diagnosis.findings import (
    MEASURED,
    Cost,
    Evidence,
    Finding,
    NotEnoughData,
    Verdict,
    cost_of,
)
from diagnosis.statistics.episodes import MIN_VOTES
from diagnosis.statistics.evidence_links import first_two, question_params, timeline_view
from diagnosis.statistics.phase_findings import URGENT_SHARE
from diagnosis.statistics.phase_times import MIN_EXCESS as MIN_RISE
from diagnosis.statistics.phase_times import middle, middles
from diagnosis.statistics.rank_tables import Floats, Ints, spread_cells
from diagnosis.statistics.transfer_times import MIN_EXCESS as MIN_TRANSFER_EXCESS
from diagnosis.statistics.transfer_times import QUESTIONS as QUESTIONS
from diagnosis.statistics.transfer_times import Transfers, transfers_of
from diagnosis.statistics.units import in_ms, steps_text, when_text

NAME = "against_baseline"
KINDS = ("step_regression", "comm_regression")

BEYOND_NOISE = 3.0
"""And by more than this many MAD of the baseline's own steps."""
_MAIN = 0.5


@dataclass(frozen=True)
class _Pace:
    """How long steps and communication take. S steps; times are without those that warm up."""

    rank_R: Ints
    step_S: Ints
    window_S: Floats  # ms, median over ranks
    floor_S: Floats  # ms, least communication of a rank
    transfers: Transfers | None

    @classmethod
    def of(cls, tables: Mapping[str, pa.Table]) -> _Pace:
        rank_R, step_S, cells = spread_cells(tables["rank_phases"])
        warm = _warm(step_S.size)
        window_S = middles(cells["step_ms"][:, warm])
        comm_RS = np.where(np.isfinite(cells["comm_ms"]), cells["comm_ms"], np.inf)[:, warm]
        floor_S = comm_RS.min(axis=0) if rank_R.size else np.empty(0)
        floor_S = np.where(np.isfinite(floor_S), floor_S, np.nan)
        moved = transfers_of(tables) if "transfers" in tables else None
        return cls(rank_R, step_S, window_S, floor_S, moved)


def _warm(num_steps: int) -> slice:
    return slice(min(int(num_steps - MIN_VOTES), num_steps // 10), None)


def compare(
    tables: Mapping[str, pa.Table], good_tables: Mapping[str, pa.Table], attempt: int
) -> Verdict:
    """Verdict on an attempt against a good one: answers of QUESTIONS of both; rank_phases do."""
    both = (tables["rank_phases"], good_tables["rank_phases"])
    if any(pc.count_distinct(cells.column("step")).as_py() < MIN_VOTES for cells in both):
        reason = f"Run and baseline need {MIN_VOTES:.0f} finished steps each to be compared."
        return Verdict(NAME, not_enough=(NotEnoughData(NAME, reason),))
    now, good = _Pace.of(tables), _Pace.of(good_tables)
    if now.rank_R.size != good.rank_R.size:
        reason = (
            f"The run has {now.rank_R.size} ranks and the baseline {good.rank_R.size}: give a "
            "baseline of the same job."
        )
        return Verdict(NAME, not_enough=(NotEnoughData(NAME, reason),))
    step_ms = middle(good.window_S)
    least_ms = max(MIN_RISE * step_ms, BEYOND_NOISE * _mad(good.window_S))
    longer_ms = middle(now.window_S) - step_ms
    comm_ms, comm_longer_ms = _communication(now, good)
    findings = []
    if comm_longer_ms > MIN_RISE * step_ms:
        findings.append(_finding("comm_regression", now, comm_longer_ms, comm_ms, attempt))
    if longer_ms > least_ms and (not findings or comm_longer_ms < _MAIN * longer_ms):
        findings.append(_finding("step_regression", now, longer_ms, step_ms, attempt))
    checked = (
        f"Against the baseline: steps take {in_ms(middle(now.window_S))} (there {in_ms(step_ms)}), "
        f"of it {in_ms(comm_ms + comm_longer_ms)} transfers (there {in_ms(comm_ms)})."
    )
    return Verdict(NAME, tuple(findings), checked)


def _communication(now: _Pace, good: _Pace) -> tuple[float, float]:
    """Communication of the baseline without waiting, ms per step, and by how much more it is now;
    0 more where that is within noise.
    """
    if now.transfers is not None and good.transfers is not None:
        before, after = _moved(good.transfers), _moved(now.transfers)
        same = before.keys() & after.keys()
        if same:
            risen = all(
                after[channel] > (1 + MIN_TRANSFER_EXCESS) * before[channel] for channel in same
            )
            good_ms = sum(before[channel] for channel in same)
            return good_ms, sum(after[channel] for channel in same) - good_ms if risen else 0.0
    good_ms, now_ms = middle(good.floor_S), middle(now.floor_S)
    beyond = now_ms - good_ms > BEYOND_NOISE * _mad(good.floor_S)
    return good_ms, now_ms - good_ms if beyond else 0.0


def _moved(transfers: Transfers) -> dict[tuple[object, ...], float]:
    """Transfers of a step of the median channel of each set of comparable ones, ms."""
    total_KS = (transfers.time_KS * transfers.num_KS)[:, _warm(transfers.step_S.size)]
    moved: dict[tuple[object, ...], float] = {}
    for rows in transfers.sets:
        total_ms = middle(total_KS[rows])
        channel = transfers.channels[int(rows[0])]
        num = round(middle(transfers.num_KS[rows]))
        if np.isfinite(total_ms):
            axis = "" if channel.is_pair else channel.axis
            key = (axis, len(channel.ranks), len(channel.hosts) > 1, num)
            moved[key] = max(total_ms, moved.get(key, 0.0))
    return moved


def _mad(values_S: Floats) -> float:
    return middle(np.abs(values_S - middle(values_S)))


def _cost(now: _Pace, longer_ms: float) -> Cost | None:
    """Measured against the steps of the baseline."""
    cost = cost_of(longer_ms, middle(now.window_S), now.step_S.size, now.rank_R.size)
    return replace(cost, basis=MEASURED) if cost else None


def _finding(kind: str, now: _Pace, longer_ms: float, good_ms: float, attempt: int) -> Finding:
    first, last = int(now.step_S[0]), int(now.step_S[-1])
    share = min(longer_ms / middle(now.window_S), 1.0)
    title, what, cause, others, then = _TEXTS[kind]
    params = question_params(first, last, attempt)
    rank = int(now.rank_R[0])
    link = timeline_view(attempt, rank, (rank,), first_two(first, last))
    cost = _cost(now, longer_ms)
    return Finding(
        kind=kind,
        attempt=attempt,
        severity="urgent" if share >= URGENT_SHARE else "warning",
        confidence="medium",
        title=title,
        text=f"{what} {in_ms(good_ms + longer_ms)} per step "
        f"{when_text(first, last, ongoing=True)}, {in_ms(longer_ms)} more than in the "
        "baseline." + (f" {cost_text(cost, ongoing=True)}" if cost else ""),
        first_step=first,
        last_step=last,
        ongoing=True,
        slowdown=round((good_ms + longer_ms) / good_ms, 4) if good_ms > 0 else None,
        cost=cost,
        evidence=(
            Evidence(
                f"{what} {in_ms(good_ms + longer_ms)} in {steps_text(first, last)}; in the "
                f"baseline {in_ms(good_ms)}.",
                round(good_ms + longer_ms, 3),
                "ms per step",
                "rank_phases",
                params,
                link,
            ),
        ),
        alternatives=others,
        next_step=then,
        cause=cause,
    )


_TEXTS: dict[str, tuple[str, str, str, tuple[str, ...], str]] = {
    "step_regression": (
        "Steps are longer than in the baseline",
        "A step takes",
        "The whole job is slower than the baseline, and communication is not the reason.",
        ("Another batch, sequence length or model than the baseline's.",),
        "Compare the versions, flags and devices of both runs, and their phases on the overview.",
    ),
    "comm_regression": (
        "Communication takes longer than in the baseline",
        "Communication without any waiting takes",
        "All transfers take longer than in the baseline: another algorithm, topology or network.",
        (
            "More bytes than in the baseline: another layout, dtype or number of micro-batches.",
            "One slow network that all groups pass: within one run it looks normal.",
        ),
        "Compare NCCL versions, its environment and the topology it logs (NCCL_DEBUG=INFO) in both "
        "runs, then time the same collective alone.",
    ),
}
