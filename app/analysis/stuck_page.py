"""What the page Stuck, and the same part of a shared file, show of a run: plain values for JSON."""

from __future__ import annotations

import time
from dataclasses import asdict
from typing import Any

from app.analysis.diagnosis import diagnosis_of
from app.runs.hub import Hub
from app.views.logs import text_of_line
from app.views.run.runs import card_of, live_state
from app.views.stuck import stuck_of
from diagnosis.detectors import dead_rank, first_error, stuck
from diagnosis.findings import Diagnosis, Finding
from ingest.run import Run
from ingest.stopping import Stop

_DETECTORS = (first_error, stuck, dead_rank)
KINDS = tuple(kind for detector in _DETECTORS for kind in detector.KINDS)
_MOST_NAMED = 8
_SOURCES = ("hooks", "flight_recorder", "nccl_ras", "logs")
_NAMES = tuple(detector.NAME for detector in _DETECTORS)


def can_be_stuck(hub: Hub, name: str) -> bool:
    """Whether a job ran with hooks, or dumps or logs say where its ranks stood."""
    return hub.cache.get(name, "can be stuck", lambda run, _: run.info["source"] in _SOURCES)


def stuck_page(
    hub: Hub, name: str, attempt: int | None, stop: Stop | None = None, now_ns: int | None = None
) -> dict[str, Any]:
    """Fields of Stuck, `findings` that say why, what detectors `checked` and the `run_state`.

    Times in s: JavaScript cannot represent Unix ns exactly. `age_s`: since the last look.
    """
    now_ns = time.time_ns() if now_ns is None else now_ns
    known = hub.cache.get(
        name, ("stuck", attempt), lambda run, stop: stuck_of(run, attempt, stop), stop=stop
    )
    diagnosis = diagnosis_of(hub, name, attempt, stop)
    findings = [finding for finding in diagnosis.findings if finding.kind in KINDS]
    tracebacks = hub.cache.get(
        name,
        ("first lines", attempt, tuple(finding.id for finding in findings)),
        lambda run, stop: [_whole_line(run, finding, stop) for finding in findings],
        stop=stop,
    )
    card = hub.cache.get(name, "card", lambda run, _: card_of(run))
    values = asdict(known)
    times = {f"{key}_s": _seconds(values.pop(f"{key}_ns")) for key in ("at", "since", "heard")}
    for wait in values["waits"]:
        since_ns = wait.pop("since_ns")
        wait["for_s"] = None if known.at_ns is None else max((known.at_ns - since_ns) / 1e9, 0.0)
    return {
        **values,
        **times,
        "age_s": None if known.at_ns is None else max((now_ns - known.at_ns) / 1e9, 0.0),
        "now_s": now_ns / 1e9,
        "run_state": live_state(card, now_ns),
        "checks": _checks(diagnosis),
        "findings": [
            _finding(finding, line) for finding, line in zip(findings, tracebacks, strict=True)
        ],
    }


def _seconds(ns: int | None) -> float | None:
    return None if ns is None else ns / 1e9


def _checks(diagnosis: Diagnosis) -> list[str]:
    """What the detectors of stuck and failed jobs have checked."""
    ours = [verdict for verdict in diagnosis.verdicts if verdict.detector in _NAMES]
    return list(dict.fromkeys(verdict.checked for verdict in ours if verdict.checked))


def _whole_line(run: Run, finding: Finding, stop: Stop | None) -> str:
    """The whole traceback of a failure whose finding quotes its last line; '' where none is."""
    if finding.kind not in first_error.KINDS or not finding.cause:
        return ""
    ranks = [place.rank for place in finding.culprits]
    return text_of_line(run, finding.attempt, finding.cause.removesuffix("..."), ranks, stop)


def _finding(finding: Finding, line: str) -> dict[str, Any]:
    of_failure = finding.kind in first_error.KINDS
    few = finding.culprits[:_MOST_NAMED]
    return {
        **{name: getattr(finding, name) for name in ("id", "kind", "title", "confidence")},
        # the wait itself stands above it, and is newer there
        "text": finding.text if of_failure or not finding.cause else _capital(finding.cause),
        "who": [f"{place}" + (f" on {place.host}" if place.host else "") for place in few],
        "num_who": len(finding.culprits),
        "hosts": list(finding.hosts),
        "ranks": [place.rank for place in finding.culprits],
        "step": finding.first_step,
        "next_step": finding.next_step,
        "alternatives": list(finding.alternatives),
        "evidence": [evidence.sentence for evidence in finding.evidence] if of_failure else [],
        "line": line,
        "cause": finding.cause if of_failure else "",
    }


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
