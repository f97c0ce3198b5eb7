"""What supports a slow_worker finding: numbers, each with the question that gives it again."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from diagnosis.findings import Evidence
from diagnosis.statistics.episodes import Episode
from diagnosis.statistics.evidence_links import (
    Params,
    View,
    first_two,
    pipeline_view,
    question_params,
)
from diagnosis.statistics.peers import Work
from diagnosis.statistics.rank_tables import Floats, Ints
from diagnosis.statistics.units import in_ms, steps_text

_ROWS_SHOWN = 10
"""Rows that slowest_ranks and late_ranks give without a parameter `top`."""


@dataclass(frozen=True)
class Suspect:
    """One rank and when it is slow, with what is needed to report it. `row`: index of the rank."""

    row: int
    stretches: tuple[Episode, ...]  # in order of time; several: on and off
    asked_RS: Floats  # slowdowns as slowest_ranks gives them: accused ranks are peers, too
    noise: float
    whom: str
    num_peers: int
    ongoing: bool
    culprit_rows: Ints

    @property
    def episode(self) -> Episode:
        """The longest stretch, which the evidence is about."""
        return max(self.stretches, key=lambda stretch: stretch.last - stretch.first)

    @property
    def whole(self) -> slice:
        """From the first slow step to the last."""
        return slice(self.stretches[0].first, self.stretches[-1].last + 1)

    @property
    def columns(self) -> Ints:
        """Those of the steps in which it is slow."""
        return np.concatenate([np.arange(s.first, s.last + 1) for s in self.stretches])

    @property
    def slowdown(self) -> float:
        """Median over the longest stretch, x."""
        return 1 + self.episode.excess

    @property
    def compared_with(self) -> str:
        """Which peers it was compared with, in words; not for the own past."""
        if self.whom == "all ranks":
            return f"all {self.num_peers} other ranks (the layout is not known)"
        where = "same stage and tp rank, other replicas" if self.whom == "dp" else "the same stage"
        return f"its {self.num_peers} peers ({where})"


@dataclass(frozen=True)
class Waits:
    """What others waited for a rank during the episode."""

    per_step_ms: float
    share: float
    of_all: float
    median_ms: float
    is_worst: bool
    place: int  # 1: nobody is waited for more
    num_waiting: int  # ranks that share a group with it in which they wait; else all of its stage
    each_ms: float  # mean wait of these per step


def evidence_of(
    work: Work, suspect: Suspect, waits: Waits | None, attempt: int
) -> tuple[Evidence, ...]:
    """Its slowness, what was before, and who waits, in this order."""
    episode = suspect.episode
    first, last = int(work.step_S[episode.first]), int(work.step_S[episode.last])
    steps = work.step_S[suspect.whole]
    params = question_params(int(steps[0]), int(steps[-1]), attempt)
    timeline = pipeline_view(work.ranks, suspect.row, attempt, first_two(first, last))
    make = _own_past_evidence if suspect.whom == "own past" else _peers_evidence
    evidence = make(work, suspect, attempt, timeline)
    if waits is not None:
        evidence += _late_evidence(waits, params, timeline, work.ranks.has_roles)
    return tuple(evidence)


def _peers_evidence(work: Work, suspect: Suspect, attempt: int, timeline: View) -> list[Evidence]:
    """Numbers of slowest_ranks, which leaves no accused rank out of the medians."""
    episode = suspect.episode
    first, last = int(work.step_S[episode.first]), int(work.step_S[episode.last])
    noise = (
        f", beyond the noise of the others ({suspect.noise:.3f}x)"
        if np.isfinite(suspect.noise)
        else ""
    )
    asked_R = _medians(suspect.asked_RS[:, episode.first : episode.last + 1])
    number = float(asked_R[suspect.row])
    with_accused = (
        f" Accused ranks are left out of that median; with them it is {number:.2f}x."
        if f"{number:.2f}" != f"{suspect.slowdown:.2f}"
        else ""
    )
    question = "rank_work" if work.measure == "forward" else "slowest_ranks"
    evidence = [
        Evidence(
            f"{_measure(work)} is {suspect.slowdown:.2f}x the median of "
            f"{suspect.compared_with} in {steps_text(first, last)}{noise}.{with_accused}",
            round(number, 4),
            "x",
            question,
            _asked(first, last, attempt, top=_top(question, int((asked_R >= number).sum()))),
            timeline,
        )
    ]
    before_S = suspect.asked_RS[suspect.row, : suspect.whole.start]
    if np.isfinite(before_S).any():
        begin, until = int(work.step_S[0]), int(work.step_S[suspect.whole.start - 1])
        before = float(np.nanmedian(before_S))
        evidence.append(
            Evidence(
                f"Before, in {steps_text(begin, until)}, it was {before:.2f}x.",
                round(before, 4),
                "x",
                question,
                _asked(begin, until, attempt, top=_top(question, work.ranks.rank_R.size)),
                _on_ranks_page(work, suspect, attempt, "slowdown"),
            )
        )
    return evidence


def _own_past_evidence(
    work: Work, suspect: Suspect, attempt: int, timeline: View
) -> list[Evidence]:
    """Numbers that follow from the cells of rank_work: no question knows this rule."""
    episode = suspect.episode
    first, last = int(work.step_S[episode.first]), int(work.step_S[episode.last])
    cells = _asked(int(work.step_S[0]), int(work.step_S[-1]), attempt)
    metric = "cpu" if work.measure == "cpu" else "compute"
    own_S = work.work_RS[suspect.row]
    evidence = [
        Evidence(
            f"{_measure(work)} in {steps_text(first, last)} is "
            f"{suspect.slowdown:.2f}x its median before its greatest change, over the median of "
            "that ratio of the other ranks without peers (accused ones left out).",
            round(suspect.slowdown, 4),
            "x",
            "rank_work",
            cells,
            timeline,
        )
    ]
    start = suspect.whole.start
    if np.isfinite(own_S[:start]).any():
        now = float(np.nanmedian(own_S[episode.first : episode.last + 1]))
        before, until = float(np.nanmedian(own_S[:start])), work.step_S[start - 1]
        evidence.append(
            Evidence(
                f"Its median was {in_ms(before)} in {steps_text(work.step_S[0], until)}, and "
                f"{in_ms(now)} in {steps_text(first, last)}.",
                round(now, 3),
                "ms",
                "rank_work",
                cells,
                _on_ranks_page(work, suspect, attempt, metric),
            )
        )
    return evidence


_MEASURES = {
    "cpu": "CPU time of its compute",
    "wall": "Wall time of its compute",
    "forward": "Time of its forwards (its backwards hold waiting for others)",
}


def _measure(work: Work) -> str:
    return _MEASURES[work.measure]


def _top(question: str, rows: int) -> int:
    """Rows that a question must give; rank_work gives all."""
    return rows if question == "slowest_ranks" else 0


def _medians(values_RS: Floats) -> Floats:
    """Median of each row, -inf where nothing is known; np.nanmedian takes ten times as long."""
    sorted_RS = np.sort(values_RS, axis=1)  # NaN comes last
    count_R1 = np.count_nonzero(~np.isnan(values_RS), axis=1)[:, None]
    middle_R2 = np.hstack([(count_R1 - 1) // 2, count_R1 // 2]).clip(0, values_RS.shape[1] - 1)
    found_R = np.take_along_axis(sorted_RS, middle_R2, axis=1).mean(axis=1)
    return np.where(np.isfinite(values_RS).any(axis=1), found_R, -np.inf)


def _asked(first: int, last: int, attempt: int, top: int = 0) -> Params:
    """Parameters of a question; `top`: rows needed, which is 10 by default."""
    params = question_params(first, last, attempt)
    return (*params, ("top", top)) if top > _ROWS_SHOWN else params


def _on_ranks_page(work: Work, suspect: Suspect, attempt: int, metric: str) -> View:
    last = int(work.step_S[suspect.episode.last])
    return (
        ("page", "ranks"),
        ("attempt", attempt),
        ("rank", int(work.ranks.rank_R[suspect.row])),
        ("metric", metric),
        ("steps", (int(work.step_S[0]), last)),
    )


def _late_evidence(
    waits: Waits,
    params: Params,
    timeline: View,
    has_roles: bool,
) -> list[Evidence]:
    if waits.place > _ROWS_SHOWN:
        params = (*params, ("top", waits.place))
    stage = "its stage" if has_roles else "the job"
    worst = f"more than for any other rank of {stage}" if waits.is_worst else "not the most there"
    return [
        Evidence(
            f"Because it arrives last at collectives, the other ranks of {stage} wait "
            f"{in_ms(waits.per_step_ms)} per step in total, {worst}; "
            f"for the median rank they wait {in_ms(waits.median_ms)}.",
            round(waits.per_step_ms, 3),
            "rank-ms per step",
            "late_ranks",
            params,
            timeline,
        ),
        Evidence(
            f"That is {100 * waits.of_all:.0f} % of all waiting in these steps.",
            round(waits.of_all, 4),
            "share",
            "late_ranks",
            params,
            timeline,
        ),
    ]
