"""A job that makes no progress: who is waited for, in which operation, and why.

The watchdogs look at their ranks while these make no progress; a Flight Recorder's dumps hold the
same for ranks that nobody looked at. From what each rank has entered follows who waits for whom
(diagnosis/stuck/waiting.py). Where ranks entered one instance with different operations, dtypes or
sizes that is the cause; else the ranks that are waited for and wait for nobody, and what keeps each
of them (diagnosis/stuck/causes.py); else a cycle of waits; else a network in which all ranks have
entered and none completes; else what keeps all of them alike. Before all that come ranks that ended
without a collective that the others entered. A rank that is gone is left to dead_rank where that
finds it.

Source: order of decision after Mycroft (2509.03018) and PyTorch's fr_trace. Assumes: clocks within
seconds. Known false positives: a rank that is slow at one place for the first time, as long as it
stays there. Blind spots: collectives of compiled code, and DDP's while its rank holds the GIL.
"""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from diagnosis.findings import Finding, Verdict
from diagnosis.stuck.causes import cause_of
from diagnosis.stuck.evidence import ENTERED, QUESTIONS, Evidence, evidence_of
from diagnosis.stuck.finding_maker import KINDS, FindingMaker
from diagnosis.stuck.left_early import left_early
from diagnosis.stuck.mismatches import mismatches_of
from diagnosis.stuck.stacks import COMMUNICATION, activity_of
from diagnosis.stuck.text import named, waits_text
from diagnosis.stuck.waiting import Wait, Waiting, waiting_of

__all__ = ["KINDS", "NAME", "QUESTIONS", "detect"]

NAME = "stuck"
NETWORK_MS = 10_000.0
"""All have entered and none completes for so long, on two looks."""


def detect(tables: Mapping[str, pa.Table], attempt: int) -> Verdict | None:
    """Verdict on an attempt; None where nobody looked at its ranks, and no dump shows waiting."""
    if ENTERED not in tables:
        return None
    evidence = evidence_of(tables)
    maker = FindingMaker(evidence, waiting_of(evidence), tables["rank_places"], attempt)
    if (left := left_early(evidence)) is not None:
        return Verdict(NAME, (maker.of_left(left),), of_data=True)
    is_looked_at = any(look.is_timed for look in evidence.looks.values())
    if not is_looked_at and (evidence.signs or not evidence.entered):
        return None
    if evidence.has_moved:
        return _after_moving(evidence, maker)
    findings = _findings(evidence, maker.waiting, maker)
    checked = None if findings else _checked(maker.waiting, evidence)
    return Verdict(NAME, tuple(findings), checked, of_data=True)


def _after_moving(evidence: Evidence, maker: FindingMaker) -> Verdict:
    """Of ranks that went on after the last look: what a job died of in what it entered last."""
    mismatches = mismatches_of(evidence) if evidence.is_over else []
    if mismatches:
        return Verdict(NAME, (maker.of_mismatch(mismatches[0]),), of_data=True)
    checked = "Ranks that made no progress when the watchdog looked at them have gone on."
    return Verdict(NAME, checked=checked, of_data=True)


def _checked(waiting: Waiting, evidence: Evidence) -> str:
    """Why nobody is named."""
    first = waiting.shown_first()
    if first is not None and first.unseen:
        missing = named(first.unseen)
        return f"{waits_text(first, evidence)} Nobody is named: what {missing} recorded is missing."
    if first is not None:
        return f"{waits_text(first, evidence)} Nothing shows that this does not end by itself."
    return "No rank keeps others waiting for a reason that can be seen."


def _findings(evidence: Evidence, waiting: Waiting, maker: FindingMaker) -> list[Finding]:
    if mismatches := mismatches_of(evidence):
        return [maker.of_mismatch(mismatches[0])]
    stalled = _stalled_network(evidence, waiting)
    in_network = {rank for wait in waiting.complete for rank in _inside(wait, evidence)}
    if roots := [rank for rank in waiting.roots if rank not in in_network]:
        return maker.of_roots([cause_of(rank, evidence) for rank in roots])
    if waiting.cycles and not stalled:
        return [maker.of_cycles(waiting.cycles)]
    if stalled:
        return [maker.of_network(stalled)]
    return maker.of_all() if not waiting.roots else []


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
