"""Findings about a stuck job, made of what was decided: diagnosis/detectors/stuck.py."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from diagnosis.findings import Evidence as Sentence
from diagnosis.findings import Finding, Place
from diagnosis.statistics.rank_tables import placed
from diagnosis.statistics.shared_location import place_of
from diagnosis.stuck.causes import COMES_LATER, Cause, cause_of
from diagnosis.stuck.evidence import Evidence
from diagnosis.stuck.left_early import Left
from diagnosis.stuck.mismatches import Mismatch, is_of_threads
from diagnosis.stuck.several import said_of
from diagnosis.stuck.text import (
    described_all,
    described_cause,
    described_cycle,
    described_left,
    described_mismatch,
    described_network,
    named,
    waits_text,
    what_keeps,
)
from diagnosis.stuck.waiting import Wait, Waiting

KINDS = (
    "missing_rank",
    "hung_rank",
    "mismatched_op",
    "mismatched_dtype",
    "mismatched_size",
    "group_order_deadlock",
    "data_stalled",
    "stalled_storage",
    "stalled_network",
)
OF_ALL = ("stalled_storage", "data_stalled", "hung_rank")
"""What can keep all ranks at once, so that nobody waits: storage, input, whoever stopped them."""


class FindingMaker:
    """Makes findings of what was decided."""

    def __init__(
        self, evidence: Evidence, waiting: Waiting, places: pa.Table, attempt: int
    ) -> None:
        self.evidence, self.waiting = evidence, waiting
        self.places, self.attempt = places, attempt
        steps = [look.step for look in evidence.looks.values()]
        if evidence.is_over:
            steps += [signs.last_step or 0 for signs in evidence.signs.values()]
        self.step = max(max(steps, default=0), 0)

    def of_roots(self, causes: Sequence[Cause]) -> list[Finding]:
        """One finding per kind of cause; ranks that are slow, not stuck, give none."""
        kinds = dict.fromkeys(cause.kind for cause in causes if cause.kind in KINDS)
        return [self._of_causes([c for c in causes if c.kind == kind]) for kind in kinds]

    def _of_causes(self, causes: Sequence[Cause]) -> Finding:
        ranks = [cause.rank for cause in causes]
        first = self.waiting.first()
        title, text = described_cause(causes, first, self.evidence)
        return self._finding(
            causes[0].kind,
            ranks,
            min((c.confidence for c in causes), key=("low", "medium", "high").index),
            title,
            text,
            said_of(causes[0].next_step, len(ranks)),
            self._alternatives(causes),
            cause=f"{what_keeps(causes)}.",
        )

    def _alternatives(self, causes: Sequence[Cause]) -> tuple[str, ...]:
        """Nobody of a job that is over comes later."""
        found = dict.fromkeys(a for cause in causes for a in cause.alternatives)
        fitting = [a for a in found if not (self.evidence.is_over and a == COMES_LATER)]
        return tuple(said_of(one, len(causes)) for one in fitting)

    def of_all(self) -> list[Finding]:
        """Where nobody waits for anybody: what keeps every rank, if it is the same for all."""
        if self.evidence.looks.keys() != self.evidence.ranks:
            return []
        causes = [cause_of(rank, self.evidence) for rank in sorted(self.evidence.ranks)]
        if len({cause.kind for cause in causes}) != 1 or causes[0].kind not in OF_ALL:
            return []
        title, text = described_all(causes)
        first = causes[0]
        said = (self._sentence(text, len(causes)),)
        step = said_of(first.next_step, len(causes))
        return [
            self._finding(first.kind, (), first.confidence, title, text, step, (), evidence=said)
        ]

    def of_mismatch(self, mismatch: Mismatch) -> Finding:
        """Of members that entered one instance with something else."""
        title, text = described_mismatch(mismatch, self.evidence)
        if is_of_threads(mismatch, self.evidence):
            return self._of_threads(mismatch, text)
        return self._finding(
            mismatch.kind,
            mismatch.culprits,
            "medium" if mismatch.is_pair or not mismatch.is_whole else "high",
            title,
            text,
            "Look for a branch or an input that only these ranks take before this collective.",
            ("Which of the two is wrong cannot be known.",) if mismatch.is_pair else (),
            evidence=(self._sentence(text, len(mismatch.ranks)),),
        )

    def _of_threads(self, mismatch: Mismatch, text: str) -> Finding:
        """Of a group that two threads of each rank use, in no order: no rank is at fault."""
        group = self.evidence.name_of(mismatch.group_id)
        return self._finding(
            mismatch.kind,
            (),
            "high",
            f"Two threads of each rank use {group} at once",
            f"{text} Each of them has entered both, in one order or the other, and another thread "
            "of each rank communicates, too: nothing orders what two threads enter in one group.",
            "Give the second thread a process group of its own with the same ranks "
            "(dcp.async_save: process_group=), made once by all of them.",
            (),
            evidence=(self._sentence(text, len(mismatch.ranks)),),
        )

    def of_left(self, left: Left) -> Finding:
        """Of ranks whose script ended before what the others entered."""
        title, text = described_left(left, self.evidence)
        return self._finding(
            "missing_rank",
            left.ranks,
            "high",
            title,
            text,
            said_of(_TAKES_FEWER, len(left.ranks)),
            (),
            evidence=(self._sentence(text, len(left.others)),),
            victims=left.others,
        )

    def of_cycles(self, cycles: Sequence[Sequence[int]]) -> Finding:
        """Of ranks that wait for each other: the first circle, and who is in the others."""
        waits = self.waiting.waits
        title, text = described_cycle(cycles[0], waits, self.evidence)
        if others := [named(sorted(cycle)) for cycle in cycles[1:_MOST_CYCLES]]:
            text += f" So do {'; '.join(others)}."
        next_step = _SAME_ORDER
        if any(wait.is_message and set(wait.waiting) & set(cycles[0]) for wait in waits):
            next_step = _WHAT_EACH_ISSUES
        return self._finding("group_order_deadlock", cycles[0], "high", title, text, next_step, ())

    def of_network(self, stalled: Sequence[Wait]) -> Finding:
        """Of collectives in which everybody is and none completes."""
        title, text = described_network(stalled, self.evidence)
        return self._finding(
            "stalled_network",
            (),
            "medium",
            title,
            text,
            "Look at the network between these hosts: links that are down, firewalls, counters of "
            "the network cards; nccl-tests between them shows which.",
            ("A collective that is very slow for its size.",),
        )

    def _finding(
        self,
        kind: str,
        ranks: Sequence[int],
        confidence: str,
        title: str,
        text: str,
        next_step: str,
        alternatives: tuple[str, ...],
        cause: str = "",
        evidence: tuple[Sentence, ...] = (),
        victims: Sequence[int] = (),
    ) -> Finding:
        waiting = (
            set(victims)
            | set(self.waiting.waiting_ranks)
            | {rank for wait in self.waiting.complete for rank in wait.waiting if not ranks}
        )
        return Finding(
            kind=kind,
            attempt=self.attempt,
            severity="urgent",
            confidence=confidence,
            title=title,
            text=text,
            culprits=self._places(ranks),
            victims=tuple(sorted(waiting - set(ranks))),
            first_step=self.step,
            last_step=self.step,
            ongoing=True,
            evidence=evidence + self._of_waits() if not victims else evidence,
            alternatives=alternatives,
            next_step=next_step,
            cause=cause,
        )

    def _places(self, ranks: Sequence[int]) -> tuple[Place, ...]:
        known = set(self.places["rank"].to_pylist())
        rank_R = np.array([rank for rank in ranks if rank in known], np.int64)
        at = placed(rank_R, self.places)
        found = {place.rank: place for place in (place_of(at, row) for row in range(rank_R.size))}
        return tuple(found.get(rank, Place(rank)) for rank in ranks)

    def _of_waits(self) -> tuple[Sentence, ...]:
        """The waits themselves, those that began first."""
        waits = (*self.waiting.waits, *self.waiting.complete)[:3]
        return tuple(
            self._sentence(waits_text(wait, self.evidence), len(wait.waiting)) for wait in waits
        )

    def _sentence(self, text: str, num_ranks: int) -> Sentence:
        given = (("attempt", self.attempt),)
        view = (("page", "stuck"), *given)
        return Sentence(text, float(num_ranks), "ranks", "entered_collectives", given, view)


_TAKES_FEWER = (
    "Find out why this rank takes fewer steps than the others: uneven inputs (use Join or "
    "drop_last), an early return, a branch around a collective."
)
_SAME_ORDER = "Issue the collectives of these groups in the same order on all their ranks."
_WHAT_EACH_ISSUES = (
    "Compare what these ranks issue, and in which order: a send needs its receive (same ranks, "
    "group and tag) before what the receiver blocks in, and every member has to enter a collective."
)
_MOST_CYCLES = 4
