"""What was reported of a job, against what was planted in it. Pure.

An episode is right where one diagnosis has findings of kinds that fit, in its steps, that name its
ranks and nobody else: all of them, in one finding or in several; or nobody, where nobody is the
reason. A finding that names a rank, stage or host that is no culprit of an episode it meets is a
false name; one that names culprits of an episode, but mostly other steps, is misdated, and neither
right nor false. One that names nobody is job-level, and kept with how much longer its steps really
were.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from benchmarks.real.kinds import DOSES, KINDS, RECORDING
from benchmarks.real.plan import OFF_STEPS, Episode
from diagnosis.findings import Diagnosis

NEAR_STEPS = 3
"""A finding may begin this many steps before its episode and is still of it."""

Part = Mapping[str, Any]


@dataclass
class Job:
    """One job: what was planted, and what was reported when."""

    episodes: list[Episode]
    reported: list[tuple[int, list[dict[str, Any]]]] = field(default_factory=list)
    """(Unix ns, findings as `parts_of` gives them)"""
    step_ms: float = 0.0
    """without a fault"""
    num_steps: int = 0
    hours: float = 0.0
    healthy_hours: float = 0.0
    """without a fault"""
    false: list[dict[str, Any]] = field(default_factory=list)
    """findings that meet no episode"""


def parts_of(diagnosis: Diagnosis) -> list[dict[str, Any]]:
    """The parts of the findings that the score depends on: one for each episode of a finding."""
    return [
        {
            "kind": finding.kind,
            "ranks": [place.rank for place in finding.culprits],
            "stages": list(finding.stages),
            "hosts": list(finding.hosts),
            "steps": list(steps),
            "confidence": finding.confidence,
        }
        for finding in diagnosis.findings
        for steps in finding.episodes or [(finding.first_step, finding.last_step)]
    ]


def score(job: Job, step_ms: Mapping[int, float], mark_ns: Mapping[int, int]) -> None:
    """Fill in what came of the episodes. `step_ms`: by step; `mark_ns`: by first step."""
    hit = {step for e in job.episodes for step in range(e.first, e.last + 2)}
    clean = {step: ms for step, ms in step_ms.items() if step not in hit}
    job.num_steps, job.hours = len(step_ms), sum(step_ms.values()) / 3.6e6
    job.step_ms, job.healthy_hours = statistics.median(clean.values()), sum(clean.values()) / 3.6e6
    for episode in job.episodes:
        episode.mark_ns = mark_ns[episode.first]
        _measure(episode, step_ms, clean)
        _look_for(episode, job.reported)
    for _, findings in job.reported:
        for part in findings:
            _judge(job, part, step_ms, clean)


def _measure(episode: Episode, step_ms: Mapping[int, float], clean: Mapping[int, float]) -> None:
    """How much longer its steps are than those around: on average for what strikes now and then."""
    near = range(episode.first - 2 * OFF_STEPS, episode.last + 2 * OFF_STEPS)
    nearby = [clean[step] for step in near if step in clean]
    own = [step_ms[s] for s in range(episode.first, episode.last + 1) if s in step_ms]
    if own and nearby:
        middle = statistics.median if KINDS[episode.fault].every == 1 else statistics.mean
        episode.step_s = middle(own) / 1e3
        episode.step_ratio = middle(own) / middle(nearby)


def _look_for(episode: Episode, reported: Sequence[tuple[int, list[dict[str, Any]]]]) -> None:
    for at_ns, findings in reported:
        found = matching(episode, findings, episode.right)
        if found and episode.alert_ns is None:
            episode.alert_ns = at_ns
            episode.onset = min(part["steps"][0] for part in found)
            episode.confidence = found[0]["confidence"]
    episode.kept = bool(reported) and bool(matching(episode, reported[-1][1], episode.right))


def matching(
    episode: Episode, findings: Iterable[Part], kinds: Sequence[str] | None = None
) -> list[Part]:
    """Findings of these kinds (default: any) that together name whom they should."""
    met = [
        part for part in findings if meets(episode, part) and (not kinds or part["kind"] in kinds)
    ]
    if not episode.ranks:
        return [part for part in met if not names(part)]
    own = [part for part in met if part["ranks"] and set(part["ranks"]) <= set(episode.ranks)]
    named = {rank for part in own for rank in part["ranks"]}
    return own if named == set(episode.ranks) else []


def meets(episode: Episode, part: Part) -> bool:
    """Whether a finding is about this episode: it begins in it, or most of its steps are in it."""
    first, last = part["steps"]
    begins = episode.first - NEAR_STEPS <= first <= episode.last and last >= episode.first
    return bool(begins or 2 * _common(episode, part) >= last - first + 1)


def _common(episode: Episode, part: Part) -> int:
    """Steps that both have."""
    first, last = part["steps"]
    return max(min(last, episode.last) - max(first, episode.first) + 1, 0)


def names(part: Part) -> bool:
    """Whether a finding names somebody."""
    return bool(part["ranks"] or part["stages"] or part["hosts"])


def _judge(job: Job, part: Part, step_ms: Mapping[int, float], clean: Mapping[int, float]) -> None:
    """Where a finding that is not right belongs: to the episodes it meets, else to none."""
    met = [episode for episode in job.episodes if meets(episode, part)]
    what = text_of(part)
    shared = [episode for episode in job.episodes if _common(episode, part) and not met]
    if about := [episode for episode in shared if _misdates(part, episode)]:
        about[0].misdated += [] if what in about[0].misdated else [what]
    elif not met:
        _note(job.false, {**part, "longer": _longer(part, step_ms, clean)})
    if any(_is_of(part, episode) and part["kind"] in episode.right for episode in met):
        return
    for episode in met:
        if part["kind"] in RECORDING:
            where = episode.of_recording
        elif _is_of(part, episode):
            where = episode.other_kind if episode.ranks else episode.job_level
        else:
            where = episode.wrong if names(part) else episode.job_level
        if what not in where:
            where.append(what)


def _note(false: list[dict[str, Any]], part: dict[str, Any]) -> None:
    """Add a finding, or widen the one that said the same of some of its steps."""
    for other in false:
        (first, last), (begin, end) = other["steps"], part["steps"]
        if text_of(other) == text_of(part) and begin <= last and first <= end:
            other |= part | {"steps": [min(first, begin), max(last, end)]}
            return
    false.append(part)


def _is_of(part: Part, episode: Episode) -> bool:
    """Whether a finding names culprits of the episode alone, or nobody where nobody is one."""
    if not episode.ranks:
        return not names(part)
    return bool(part["ranks"]) and set(part["ranks"]) <= set(episode.ranks)


def _misdates(part: Part, episode: Episode) -> bool:
    """Whether a finding is about the episode in all but its steps."""
    return _is_of(part, episode) and bool(episode.ranks or part["kind"] in episode.right)


def text_of(part: Part) -> str:
    """Kind and whom it names."""
    whom = part["ranks"] or part["stages"] or part["hosts"]
    return f"{part['kind']} {whom or 'nobody'}"


def _longer(part: Part, step_ms: Mapping[int, float], clean: Mapping[int, float]) -> float | None:
    """Median of the steps of a finding / of those without a fault outside of it."""
    first, last = part["steps"]
    own = [ms for step, ms in step_ms.items() if first <= step <= last]
    others = [ms for step, ms in clean.items() if not first <= step <= last]
    if not own or not others:
        return None
    return round(statistics.median(own) / statistics.median(others), 3)


def is_true(part: Part) -> bool:
    """Whether the steps of a job-level finding really were longer, by the least dose."""
    return (part["longer"] or 0.0) >= min(DOSES.values())
