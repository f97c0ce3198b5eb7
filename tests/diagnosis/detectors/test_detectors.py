"""The registry of detectors: every module of the folder is in it, and finds only its own kinds."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

import diagnosis.detectors
from diagnosis.detectors import DETECTORS, KINDS, REGISTERED, RESERVED_KINDS, Detector, diagnose
from diagnosis.detectors import against_baseline as baseline
from diagnosis.findings import Evidence, Finding, Verdict
from diagnosis.kind_titles import KIND_TITLES
from ingest.query.saved_queries import saved_query

FOLDER = Path(diagnosis.detectors.__file__).parent


def a_verdict(kind: str) -> Verdict:
    evidence = (Evidence("One.", 1.0, "x", "rank_phases"),)
    finding = Finding(
        kind=kind,
        attempt=0,
        severity="warning",
        confidence="low",
        title="A title",
        text="A text.",
        culprits=(),
        victims=(),
        first_step=0,
        last_step=1,
        ongoing=True,
        slowdown=None,
        cost=None,
        evidence=evidence,
        alternatives=(),
        next_step="Look.",
    )
    return Verdict("x", (finding,))


def test_every_module_of_the_folder_is_registered() -> None:
    found = {path.stem for path in FOLDER.glob("*.py")} - {"__init__"}
    found |= {path.parent.name for path in FOLDER.glob("*/__init__.py")}
    assert found - set(REGISTERED) == {"against_baseline"}
    assert len(REGISTERED) == len(set(REGISTERED))


def test_a_detector_is_called_as_its_module_is() -> None:
    assert tuple(detector.name for detector in DETECTORS) == REGISTERED
    assert baseline.NAME == "against_baseline"


def test_every_detector_reads_saved_questions() -> None:
    for detector in DETECTORS:
        assert detector.kinds
        for name in detector.questions:
            assert saved_query(name).columns


def test_the_kinds_are_those_of_the_detectors_and_the_reserved_ones() -> None:
    made = {kind for detector in DETECTORS for kind in detector.kinds} | set(baseline.KINDS)
    assert set(KINDS) == made | set(RESERVED_KINDS)
    assert len(KINDS) == len(set(KINDS))
    assert not made & set(RESERVED_KINDS), "a detector finds it: take it out of RESERVED_KINDS"


def test_sentences_call_each_kind_by_its_title() -> None:
    assert set(KIND_TITLES) == set(KINDS)
    named = re.compile(rf"\((?:{'|'.join(KINDS)})(?:, (?:{'|'.join(KINDS)}))*\)")
    folder = Path(diagnosis.__file__).parent
    texts = (
        (path.name, node.value)
        for path in folder.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    )
    assert [(name, text) for name, text in texts if "\n" not in text and named.search(text)] == []


def test_a_detector_that_fails_leaves_the_verdicts_of_the_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fails(_tables: object, _attempt: int) -> Verdict:
        raise KeyError(3)

    broken = Detector("broken", ("slow_op",), (), fails)
    sound = Detector("x", ("slow_worker",), (), lambda _tables, _attempt: a_verdict("slow_worker"))
    with pytest.raises(KeyError):
        diagnose({}, 0, [broken, sound])
    monkeypatch.setattr(diagnosis.detectors, "catches_errors", True)
    found = diagnose({}, 0, [broken, sound])
    assert [finding.kind for finding in found.findings] == ["slow_worker"]
    (missing,) = found.not_enough
    assert missing.detector == "broken"
    assert missing.missing == (
        "Not judged, because rankscope has a fault: slow operation. The detector raised "
        "KeyError: 3."
    )


def test_a_finding_of_a_kind_that_the_detector_does_not_list_is_refused() -> None:
    wrong = Detector("x", ("slow_worker",), (), lambda _tables, _attempt: a_verdict("data_loader"))
    with pytest.raises(ValueError, match=r"detector x found 'data_loader'.*slow_worker"):
        diagnose({}, 0, [wrong])
    right = Detector("x", ("slow_worker",), (), lambda _tables, _attempt: a_verdict("slow_worker"))
    assert [finding.kind for finding in diagnose({}, 0, [right]).findings] == ["slow_worker"]
