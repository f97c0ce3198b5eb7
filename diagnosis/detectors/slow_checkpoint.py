"""slow_checkpoint: saving holds the job up for too much of its time.

A save costs a step, and steps between saves pay for it: the share of the job's time is the longest
save of any rank over the time from one save to the next. It is a finding where that is more than a
good checkpoint costs; where saves became longer since one of them, or were for a while; and where
one rank saves longer than the others time after time, for the others wait for it.

Source: CheckFreq (Mohan et al., FAST 2021) bounds what checkpoints may cost
to 3.5 % of the time, and saves as often as that allows. Assumes: saves are recorded as such, and
block (what compute hides does not count). Known false positives: a short run that saves far more
often than a long one would. Blind spots: one save alone; storage that has always been slow and is
asked seldom. Cost: one pass over the cells.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from diagnosis.findings import Evidence, Finding, NotEnoughData, Verdict
from diagnosis.statistics.episodes import Episode
from diagnosis.statistics.late_ranks import STEADY_SHARE
from diagnosis.statistics.peers import MIN_PEERS, level_before
from diagnosis.statistics.phase_findings import Lost, Words, finding_of, steps_missing
from diagnosis.statistics.phase_times import PhaseTimes, middle, phase_times
from diagnosis.statistics.rank_tables import Bools, Floats, Ints
from diagnosis.statistics.step_noise import step_noise
from diagnosis.statistics.units import in_ms, named_ranks, steps_text

NAME = "slow_checkpoint"
KINDS = ("slow_checkpoint",)
QUESTIONS = ("rank_phases", "rank_places")

MOST_SHARE = 0.035
"""Of the job's time: the bound of CheckFreq."""

LEAST_SHARE = 0.01
"""Below this share of the job's time no save is worth a word, however long."""

LONGER = 1.5
"""A rank that saves so many times as long as the other ranks that save, or saves that take so many
times as long as earlier ones: storage differs from save to save by tens of percent."""

BEYOND = 3.0
"""Steps with a save that are longer by more than so many times the save hold something else, too:
an evaluation, or a save that the hooks do not see."""

NEAR_LONGEST = 0.5
"""All wait for the longest save: a rank that takes less than half of it holds up nobody."""

FEWEST_SAVES = 2
FEWEST_PAST = 4
"""On end, of saves that were slow and are as before again: two of them may be chance."""
FEWEST_TO_NAME = 3
"""One of eight ranks has the longest of three saves by chance once in 64 jobs, and 1.5 times the
others' hardly ever."""


@dataclass(frozen=True)
class _Saves:
    """Steps with a save. R ranks, C saves."""

    columns: Ints
    save_RC: Floats  # ms, 0 where a rank did not save
    interval: float  # steps from one to the next
    between_ms: float  # usual time from one to the next, without the save
    longer_ms: float  # by which steps with a save are usually longer than the others

    @property
    def longest_C(self) -> Floats:
        """What a save holds the job up, ms."""
        longest: Floats = self.save_RC.max(axis=0)
        return longest

    def share(self, chosen: slice | Bools) -> float:
        """Of the job's time, of some saves."""
        save_ms = middle(self.longest_C[chosen])
        return save_ms / (save_ms + self.between_ms)


def detect(tables: Mapping[str, pa.Table], attempt: int) -> Verdict:
    """Verdict on the steps in `tables`: answers of QUESTIONS for one attempt and range of steps."""
    times = phase_times(tables)
    if missing := steps_missing(NAME, times.step_S.size):
        return Verdict(NAME, not_enough=missing)
    save_RS = np.nan_to_num(times.phases["checkpoint"])
    num_saves = int((save_RS > 0).any(axis=0).sum())
    if num_saves < FEWEST_SAVES:
        one = "1 finished step has a checkpoint save"  # one after the last step is in none
        reason = one if num_saves else "No checkpoint save was recorded"
        return Verdict(
            NAME, not_enough=(NotEnoughData(NAME, f"{reason}: two are needed to judge them."),)
        )
    saves = _saves(times, save_RS)
    findings = _findings(times, saves, attempt)
    checked = f"No checkpoint saves that cost {100 * MOST_SHARE:g} % of the time or became slow."
    return Verdict(NAME, tuple(findings), None if findings else checked)


def _findings(times: PhaseTimes, saves: _Saves, attempt: int) -> list[Finding]:
    """One on all saves where these cost too much, else one on each time they were slow."""
    num_saves = saves.columns.size
    slow = _slow_spans(saves.longest_C)
    goes_on = bool(slow) and slow[-1].stop == num_saves
    usual_C = np.ones(num_saves, np.bool_)
    for span in slow:
        usual_C[span] = False
    cost_much = saves.share(usual_C) >= MOST_SHARE
    least = MOST_SHARE if cost_much or not slow else np.inf
    every = None if goes_on else _finding(times, saves, attempt, slice(0, num_saves), least)
    if every is not None:
        return [every]
    found = [
        _finding(times, saves, attempt, span, LEAST_SHARE if span.stop == num_saves else MOST_SHARE)
        for span in slow
    ]
    return [finding for finding in found if finding is not None]


def _saves(times: PhaseTimes, save_RS: Floats) -> _Saves:
    longest_S = save_RS.max(axis=0)
    columns = np.flatnonzero(longest_S > 0)
    interval = float(np.median(np.diff(times.step_S[columns])))
    usual_ms = middle(np.maximum(times.window_S - longest_S, 0.0))
    is_other_S = longest_S == 0
    longer_ms = 0.0
    if is_other_S.any():
        longer_ms = middle(times.window_S[columns]) - middle(times.window_S[is_other_S])
    return _Saves(columns, save_RS[:, columns], interval, max(usual_ms * interval, 1e-9), longer_ms)


def _finding(
    times: PhaseTimes, saves: _Saves, attempt: int, span: slice, least: float
) -> Finding | None:
    """What these saves cost, and on whom if it is one; `least`: share of the job's time where it
    is nobody.
    """
    share, rows = saves.share(span), _at_fault(saves, span)
    if share < (LEAST_SHARE if rows else least):
        return None
    first, newest = int(saves.columns[span.start]), times.step_S.size - 1
    last = int(saves.columns[span.stop - 1])
    left = times.step_S[newest] - times.step_S[saves.columns[-1]]
    if span.stop == saves.columns.size and left <= 2 * saves.interval:
        last = newest
    shown = int(saves.save_RC[:, span.start].argmax())
    lost = Lost(rows, Episode(first, last, share), share, shown)
    finding = finding_of(times, lost, attempt, _words(times, saves, rows))
    return replace(
        finding,
        text=f"{finding.text}{_beyond(saves, span)}",
        evidence=(*_evidence(times, saves, span, finding), *finding.evidence),
    )


def _beyond(saves: _Saves, span: slice) -> str:
    """A sentence where steps with a save lose far more than the saves that were recorded."""
    save_ms = middle(saves.longest_C[span])
    if saves.longer_ms < BEYOND * save_ms:
        return ""
    return (
        f" Steps with a save are {in_ms(saves.longer_ms)} longer than the others, and the saves "
        f"that were recorded take {in_ms(save_ms)} of that: something else goes with them."
    )


def _slow_spans(longest_C: Floats) -> list[slice]:
    """Saves on end that take LONGER than before; not those from the first one on."""
    before_ms = level_before(longest_C)
    if not np.isfinite(before_ms):
        return []
    is_slow_C = longest_C > max(LONGER * before_ms, before_ms + step_noise(longest_C))
    edges = np.flatnonzero(np.diff(np.concatenate(([0], is_slow_C.astype(np.int8), [0]))))
    spans = [slice(int(begin), int(end)) for begin, end in edges.reshape(-1, 2)]
    return [
        span
        for span in spans
        if span.start > 0
        and span.stop - span.start >= (FEWEST_SAVES if span.stop == longest_C.size else FEWEST_PAST)
    ]


def _at_fault(saves: _Saves, span: slice) -> tuple[int, ...]:
    """Rows of the rank that saves alone, or of those that take LONGER than the others nearly every
    time, and for long enough to hold up the job.
    """
    save_RC = saves.save_RC[:, span]
    savers = np.flatnonzero((save_RC > 0).any(axis=1))
    if savers.size == 1 and len(save_RC) > 1:
        return (int(savers[0]),)
    if savers.size <= MIN_PEERS or save_RC.shape[1] < FEWEST_TO_NAME:
        return ()
    rows, least_C = [], NEAR_LONGEST * save_RC.max(axis=0)
    for row in savers:
        others_C = np.maximum(LONGER * np.median(save_RC[savers[savers != row]], axis=0), least_C)
        if (save_RC[row] > others_C).mean() >= STEADY_SHARE:
            rows.append(int(row))
    return tuple(rows) if 2 * len(rows) < savers.size else ()


def _evidence(
    times: PhaseTimes, saves: _Saves, span: slice, finding: Finding
) -> tuple[Evidence, ...]:
    view, params = finding.evidence[0].view, finding.evidence[0].params
    chosen_C = saves.longest_C[span]
    every = f" every {saves.interval:g} steps" if saves.interval > 1 else " in each step"
    evidence = [
        Evidence(
            f"{chosen_C.size} saves{every}, of {in_ms(middle(chosen_C))} on the slowest rank.",
            round(middle(chosen_C), 3),
            "ms",
            "checkpoint_steps",
            params,
            view,
        )
    ]
    if span.start:
        before_ms = middle(saves.longest_C[: span.start])
        begin, until = int(times.step_S[0]), int(times.step_S[saves.columns[span.start]]) - 1
        evidence.append(
            Evidence(
                f"Before, in {steps_text(begin, until)}, a save took {in_ms(before_ms)}.",
                round(before_ms, 3),
                "ms",
                "checkpoint_steps",
                (("step_min", begin), ("step_max", until), params[2]),
                view,
            )
        )
    return tuple(evidence)


def _words(times: PhaseTimes, saves: _Saves, rows: tuple[int, ...]) -> Words:
    who = f" on {named_ranks(times.ranks.rank_R[list(rows)])}" if rows else ""
    return Words(
        "slow_checkpoint",
        f"Saving checkpoints{who} holds up the job",
        "on average to saving checkpoints",
        f"The job stands still while a checkpoint is saved{who}.",
        (
            "Slow storage, a slow network to it, a full page cache, or collecting the tensors "
            "before they are written: one span does not show which.",
            "Saves that are as long as ever, and too frequent.",
        ),
        "Time a write of the same size on that host; save asynchronously (torch.distributed."
        "checkpoint.async_save), in shards from all ranks, or less often.",
        question="checkpoint_steps",
    )
