"""A job that makes no progress: who is waited for, in which operation, and why.

The watchdogs look at their ranks while these make no progress; a Flight Recorder's dumps hold the
same for ranks that nobody looked at. From what each rank has entered follows who waits for whom
(diagnosis/stuck/waiting.py). Where ranks entered one instance with different operations, dtypes or
sizes that is the cause; else the ranks that are waited for and wait for nobody, and what keeps each
of them (diagnosis/stuck/causes.py); else a cycle of waits; else a network in which all ranks have
entered and none completes. A rank that is gone is left to dead_rank where that finds it.

Source: order of decision after Mycroft (2509.03018) and PyTorch's fr_trace. Assumes: clocks within
seconds. Known false positives: a rank that is slow at one place for the first time, as long as it
stays there. Blind spots: collectives of compiled code, and DDP's while its rank holds the GIL.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa

from diagnosis.findings import Evidence as Sentence
from diagnosis.findings import Finding, Place, Verdict
from diagnosis.statistics.rank_tables import placed
from diagnosis.statistics.shared_location import place_of
from diagnosis.stuck.causes import Cause, cause_of
from diagnosis.stuck.evidence import ENTERED, Evidence, evidence_of
from diagnosis.stuck.evidence import QUESTIONS as ASKED
from diagnosis.stuck.mismatches import Mismatch, mismatches_of
from diagnosis.stuck.stacks import COMMUNICATION, activity_of
from diagnosis.stuck.text import (
    described_cause,
    described_cycle,
    described_mismatch,
    described_network,
    named,
    waits_text,
)
from diagnosis.stuck.waiting import Wait, Waiting, waiting_of

NAME = "stuck"
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
QUESTIONS = ASKED

NETWORK_MS = 10_000.0
"""All have entered and none completes for so long, on two looks."""


def detect(tables: Mapping[str, pa.Table], attempt: int) -> Verdict | None:
    """Verdict on an attempt; None where nobody looked at its ranks, and no dump shows waiting."""
    if ENTERED not in tables:
        return None
    evidence = evidence_of(tables)
    is_looked_at = any(look.is_timed for look in evidence.looks.values())
    if not is_looked_at and (evidence.signs or not evidence.entered):
        return None
    if evidence.has_moved:
        return Verdict(NAME, checked="The ranks that stood still have gone on.", of_data=True)
    waiting = waiting_of(evidence)
    findings = _findings(evidence, waiting, tables["rank_places"], attempt)
    checked = None if findings else _checked(waiting, evidence)
    return Verdict(NAME, tuple(findings), checked, of_data=True)


def _checked(waiting: Waiting, evidence: Evidence) -> str:
    """Why nobody is named."""
    first = waiting.shown_first()
    if first is not None and first.unseen:
        missing = named(first.unseen)
        return f"{waits_text(first, evidence)} Nobody is named: what {missing} recorded is missing."
    return "No rank keeps others waiting for a reason that can be seen."


def _findings(
    evidence: Evidence, waiting: Waiting, places: pa.Table, attempt: int
) -> list[Finding]:
    maker = _Maker(evidence, waiting, places, attempt)
    if mismatches := mismatches_of(evidence):
        return [maker.of_mismatch(mismatches[0])]
    stalled = _stalled_network(evidence, waiting)
    in_network = {rank for wait in waiting.complete for rank in _inside(wait, evidence)}
    if roots := [rank for rank in waiting.roots if rank not in in_network]:
        return maker.of_roots([cause_of(rank, evidence) for rank in roots])
    if waiting.cycles and not stalled:
        return [maker.of_cycle(cycle) for cycle in waiting.cycles[:1]]
    return [maker.of_network(stalled)] if stalled else []


def _inside(wait: Wait, evidence: Evidence) -> list[int]:
    """Ranks of a collective that all have entered, and that wait for nothing but its end."""
    return [rank for rank in wait.waiting if _stays_in_communication(rank, evidence)]


def _stalled_network(evidence: Evidence, waiting: Waiting) -> list[Wait]:
    """Collectives that all members have entered and stay in, at two looks."""
    at_ns = evidence.at_ns
    if at_ns is None:
        return []
    return [
        wait
        for wait in waiting.complete
        if at_ns - wait.since_ns >= NETWORK_MS * 1e6
        and len(_inside(wait, evidence)) == len(wait.waiting)
    ]


def _stays_in_communication(rank: int, evidence: Evidence) -> bool:
    look = evidence.looks.get(rank)
    return (
        look is not None
        and look.was_seen_twice
        and look.process not in ("T", "gone", "Z")
        and activity_of(look.stack) == COMMUNICATION
    )


class _Maker:
    """Makes findings of what was decided."""

    def __init__(
        self, evidence: Evidence, waiting: Waiting, places: pa.Table, attempt: int
    ) -> None:
        self.evidence, self.waiting = evidence, waiting
        self.places, self.attempt = places, attempt
        steps = [look.step for look in evidence.looks.values()]
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
            causes[0].next_step,
            tuple(dict.fromkeys(a for cause in causes for a in cause.alternatives)),
            cause=f"{named(ranks)}: {causes[0].how}.",
        )

    def of_mismatch(self, mismatch: Mismatch) -> Finding:
        """Of members that entered one instance with something else."""
        title, text = described_mismatch(mismatch, self.evidence)
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

    def of_cycle(self, cycle: Sequence[int]) -> Finding:
        """Of ranks that wait for each other in different groups."""
        title, text = described_cycle(cycle, self.waiting.waits, self.evidence)
        return self._finding(
            "group_order_deadlock",
            cycle,
            "high",
            title,
            text,
            "Issue the collectives of these groups in the same order on all their ranks.",
            (),
        )

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
    ) -> Finding:
        waiting = set(self.waiting.waiting_ranks) | {
            rank for wait in self.waiting.complete for rank in wait.waiting if not ranks
        }
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
            evidence=evidence + self._of_waits(),
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
