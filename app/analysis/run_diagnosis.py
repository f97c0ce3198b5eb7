"""A diagnosis with what it takes to call a run healthy: what could not be judged although it was
recorded, and whether the steps on the page are as long as the others.
"""

from __future__ import annotations

import re
import statistics
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from app.views.ranks.metric_matrix import LAST_STEPS
from app.views.run.kpis import TIMES_USUAL
from diagnosis.findings import Diagnosis, Finding
from diagnosis.statistics.step_levels import WARM_UP_STEPS
from diagnosis.stuck.evidence import ENTERED, evidence_of
from diagnosis.stuck.text import status_of
from diagnosis.stuck.waiting import waiting_of

FEWEST_STEPS = 5
FAR_TIMES_USUAL = 7.0
"""From here on an earlier step is unusual; the newest one may be the first of many."""
STALLED_S, STALLED_STEPS = 60.0, 5.0
"""Without a finished step for this long, and for as many usual steps, ranks are stalled."""
_NEEDS_COLLECTIVES = re.compile("aligned|known whole")
_NOT_RECORDED = re.compile(
    "^No [a-z -]+ (?:was|were) recorded|were not recorded apart|^The log has no"
    "|no communication in the log|^No heartbeats|^No compute|^Fewer than two pipeline stages"
    "|^One micro-batch per step|^Fewer than four machines|^Metrics of machines were recorded for"
)
"""How detectors say that a run does not contain what they read, or nothing to compare."""


@dataclass(frozen=True)
class RunDiagnosis(Diagnosis):
    """The diagnosis of a run. `unusual`: why a step on the page is not like the others, or '';
    `waits`: the same where the reason is that ranks wait for others.
    """

    records_collectives: bool = True
    unusual: str = ""
    waits: str = ""

    def with_findings(self, change: Callable[[Finding], Finding]) -> RunDiagnosis:
        """The same with every finding changed."""
        return replace(self, verdicts=super().with_findings(change).verdicts)

    def to_json(self) -> dict[str, Any]:
        """Plain values; what could not be judged is divided by the reason."""
        could_not, not_recorded = unjudged(self)
        return super().to_json() | {
            "could_not_judge": list(could_not),
            "not_recorded": list(not_recorded),
            "unusual": self.unusual or None,
        }


def unjudged(diagnosis: Diagnosis) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """What could not be judged although the run records it, and what it does not record; each
    sentence once.
    """
    records = not isinstance(diagnosis, RunDiagnosis) or diagnosis.records_collectives
    missing = dict.fromkeys(lack.missing for lack in diagnosis.not_enough)
    not_recorded = tuple(text for text in missing if _is_not_recorded(text, records))
    return tuple(text for text in missing if text not in not_recorded), not_recorded


def _is_not_recorded(missing: str, records_collectives: bool) -> bool:
    if _NEEDS_COLLECTIVES.search(missing):
        return not records_collectives
    return _NOT_RECORDED.search(missing) is not None


def who_waits(tables: Mapping[str, pa.Table]) -> str:
    """A sentence if ranks of a job wait for others, whatever the reason; '' otherwise."""
    if ENTERED not in tables or not tables["rank_looks"].num_rows:
        return ""
    evidence = evidence_of(tables)
    ended = all(signs.status == "finished" for signs in evidence.signs.values())
    return "" if evidence.has_moved or ended else status_of(waiting_of(evidence), evidence)


def unusual_step(steps: pa.Table, phases: pa.Table) -> str:
    """A sentence if the newest finished step, or else one of those on the page, took far longer
    than the others, saving left out; rows of `steps` and `rank_phases`.
    """
    known = [(r["step"], r["step_ms"]) for r in steps.to_pylist() if r["step_ms"] is not None]
    if len(known) <= FEWEST_STEPS:
        return ""
    usual_ms = statistics.median(ms for _, ms in known[:-1])
    saving = phases.group_by("step").aggregate([("checkpoint_ms", "max")])
    saving_ms = dict(zip(*(saving[name].to_pylist() for name in saving.column_names), strict=True))

    def times_usual(step_and_ms: tuple[int, float]) -> float:
        step, took_ms = step_and_ms
        return (took_ms - saving_ms.get(step, 0.0)) / usual_ms

    newest = known[-1]
    longest = max(known[WARM_UP_STEPS:][-LAST_STEPS:], key=times_usual)
    if times_usual(newest) >= TIMES_USUAL:
        return _took_long(f"The newest step, {newest[0]},", newest[1], usual_ms)
    if times_usual(longest) >= FAR_TIMES_USUAL:
        return _took_long(f"Step {longest[0]}", longest[1], usual_ms)
    return ""


def _took_long(step: str, took_ms: float, usual_ms: float) -> str:
    return (
        f"{step} took {took_ms:,.0f} ms, {took_ms / usual_ms:.1f} times as long as usual "
        f"({usual_ms:,.0f} ms)."
    )


def stalled(signs: pa.Table, steps: pa.Table, ended_ns: int | None) -> str:
    """A sentence if ranks of a job that has not ended report, but finish no step; rows of
    `last_signs` and `steps`, and the end of the newest finished step.
    """
    rows = signs.to_pylist()
    if ended_ns is None or not rows or any(row["status"] is not None for row in rows):
        return ""
    known = [ms for ms in steps.column("step_ms").to_pylist() if ms is not None]
    waits_s = (max(row["last_ns"] for row in rows) - ended_ns) / 1e9
    usual_s = statistics.median(known) / 1e3 if known else 0.0
    if waits_s < max(STALLED_S, STALLED_STEPS * usual_s):
        return ""
    return (
        f"The ranks report, but have finished no step for {waits_s:,.0f} s; a step usually takes "
        f"{usual_s:,.1f} s."
    )
