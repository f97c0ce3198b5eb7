"""Diagnosis of a self-test alone, or against an earlier one of the same machines."""

from __future__ import annotations

from diagnosis.detectors import detector_of
from diagnosis.detectors.selftest import NAME, past
from diagnosis.detectors.selftest.measurements import QUESTION
from diagnosis.findings import Diagnosis, Verdict
from ingest.run import Run
from ingest.stopping import Stop


def selftest_diagnosis(run: Run, attempt: int, good: Run | None = None) -> Diagnosis:
    """Who is slow among those that do the same, and against `good` where it is given."""
    table = run.ask(QUESTION, attempt=attempt)
    verdict = detector_of(NAME).judge({QUESTION: table}, attempt)
    verdicts = () if verdict is None else (verdict,)
    if good is not None:
        verdicts = (*verdicts, against_past(run, attempt, good))
    return Diagnosis(verdicts)


def against_past(run: Run, attempt: int, good: Run, stop: Stop | None = None) -> Verdict:
    """A self-test against the newest attempt of an earlier one."""
    tables = (
        run.ask(QUESTION, attempt=attempt, stop=stop),
        good.ask(QUESTION, attempt=good.newest_attempt, stop=stop),
    )
    return past.compare(*tables, attempt)
