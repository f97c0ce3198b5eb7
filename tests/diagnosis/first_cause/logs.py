"""Logs written to files, imported and judged as `rankscope diagnose LOGS` does."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from app.analysis.diagnosis import tables_of
from app.analysis.imports import open_any
from diagnosis.detectors import detector_of
from diagnosis.findings import Finding, Verdict

_DETECTOR = detector_of("first_error")


def verdict_on(folder: Path, logs: Mapping[str, str]) -> Verdict | None:
    """What first_error says of these files, by their names below a folder."""
    for name, text in logs.items():
        path = folder / "logs" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    with open_any(folder / "logs") as run:
        attempt = run.newest_attempt
        tables = tables_of(run, attempt, (0, 0), chosen=(_DETECTOR,))
    return _DETECTOR.judge(tables, attempt)


def finding_on(folder: Path, logs: Mapping[str, str]) -> Finding | None:
    """The finding, None where nothing is claimed."""
    verdict = verdict_on(folder, logs)
    return verdict.findings[0] if verdict is not None and verdict.findings else None
