"""Why a planted fault was missed: what the detectors of its kinds compared, and what they ask for.

Reads the tables that the diagnosis read and calls the functions that the detectors call. Of kinds
that are compared in other ways it says what their detectors say. Shape suffixes: R ranks, S steps,
N columns of the fault.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from app.analysis.diagnosis import all_steps, tables_of
from benchmarks.accuracy.score import episodes, names_place, score
from benchmarks.accuracy.why_missed.miss import Miss
from benchmarks.accuracy.why_missed.single_ranks import STANDING_STILL, late_rank, slow_rank
from benchmarks.accuracy.why_missed.whole_job import (
    in_turn,
    long_steps,
    longer_compute,
    saves,
    stage,
    waits_for_data,
    whole_job,
)
from diagnosis.detectors import DETECTORS, slow_op
from diagnosis.findings import Verdict
from diagnosis.statistics import onsets
from ingest.run import Run
from sample_traces.generate.labelled.labels import Label


def whys(run: Run, labels: Sequence[Label], findings: Sequence[dict[str, Any]]) -> list[str]:
    """A sentence for each label that was missed, '' for the others."""
    missed = [match.label for match in score(labels, findings).matches if match.finding is None]
    if not missed:
        return [""] * len(labels)
    tables = tables_of(run, run.newest_attempt, all_steps(run))
    return [
        why_missed(Miss(label, tables, run.newest_attempt, findings))
        if any(label is one for one in missed)
        else ""
        for label in labels
    ]


def why_missed(miss: Miss) -> str:
    """What decided: another finding that took its place, what was not recorded, or a number."""
    kinds = set(miss.label.kinds)
    judged = [one.judge(miss.tables, miss.attempt) for one in DETECTORS if kinds & {*one.kinds}]
    verdicts = [verdict for verdict in judged if verdict is not None]
    for verdict in verdicts:
        for finding in verdict.findings:
            if _would_fit(miss, finding.to_json()):
                return (
                    f"{verdict.detector} found “{finding.title}”, which was merged with another "
                    "finding or dropped for it."
                )
    declined = [gap.missing for v in verdicts if v.checked is None for gap in v.not_enough]
    if verdicts and all(v.checked is None and not v.findings for v in verdicts) and declined:
        return " ".join(dict.fromkeys(declined))
    if not miss.column_N.size:
        return "Its steps were not recorded."
    own = _BY_PLANTED.get(miss.label.planted or miss.label.kind)
    said = [*_set_aside(miss, verdicts), *([own(miss)] if own is not None else [])]
    if not any(said):
        said = [v.checked for v in verdicts if v.checked] or declined
    return " ".join(filter(None, said)) or "No detector judges this run for it."


def _would_fit(miss: Miss, finding: dict[str, Any]) -> bool:
    """Whether a detector's own finding is about the fault, and the diagnosis has it no more."""
    label = miss.label
    meets = any(
        first <= label.last_step and label.first_step <= last for first, last in episodes(finding)
    )
    ranks = set(finding["ranks"])
    is_listed = any(
        one["kind"] == finding["kind"] and (ranks & {*one["ranks"]} or not (ranks or one["ranks"]))
        for one in miss.findings
    )
    fits = finding["kind"] in label.kinds and meets and names_place(finding, label)
    return fits and not is_listed


def _set_aside(miss: Miss, verdicts: Sequence[Verdict]) -> list[str]:
    """What its detectors say that stood out and is no finding; of ranks what names one of them."""
    about = [f"ank {rank} " for rank in miss.label.ranks]
    sentences = (sentence for verdict in verdicts for sentence in verdict.set_aside)
    return [s for s in sentences if not about or any(words in s for words in about)][:1]


def _in_phase(*phases: str) -> Callable[[Miss], str]:
    """Of a label without ranks the whole job is asked."""
    return lambda miss: late_rank(miss, phases) if miss.label.ranks else whole_job(miss)


_BY_PLANTED: dict[str, Callable[[Miss], str]] = {
    "slow_op": lambda miss: longer_compute(miss, slow_op.LEAST_RISE),
    "step_regression": lambda miss: longer_compute(miss, onsets.MIN_RISE),
    "job_slower": whole_job,
    "data_loader": waits_for_data,
    "jit_spikes": long_steps,
    "slow_checkpoint": saves,
    "launch_skew": in_turn,
    "slow_stage": lambda miss: stage(miss) if miss.label.stages else slow_rank(miss),
    "slow_worker": slow_rank,
    "host_contention": _in_phase(*STANDING_STILL),
    "host_wide": _in_phase(*STANDING_STILL),
    "late_elsewhere": _in_phase(*STANDING_STILL),
    "late_in_data": _in_phase("data"),
    "late_in_compute": lambda miss: slow_rank(miss) if miss.label.ranks else whole_job(miss),
}
"""What is said of what was planted, where its detector's numbers can be given."""
