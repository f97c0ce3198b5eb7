"""Faults of the model in training that really runs: each is found, the healthy twin is silent."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from app.findings import diagnose_run
from diagnosis.findings import Finding
from ingest.store import open_run
from sample_traces.generate.faults import OF_THE_MODEL
from tests.forks import fork, succeeded
from tests.sample_traces.model_faults_job import FROM, LAYER

pytestmark = [pytest.mark.torch, pytest.mark.inspection]

ALSO = {
    "attention_entropy_collapse": {"logit_growth"},
    "logit_growth": {"attention_entropy_collapse"},
}
"""What else is true of it: queries and keys that large have large logits, and see one key each."""


@pytest.fixture
def found(tmp_path: Path, request: pytest.FixtureRequest) -> dict[str, Finding]:
    """Findings of the model in the job with the fault that the test is asked for."""
    name = request.param
    clean = {key: value for key, value in os.environ.items() if not key.startswith("TRACE_HOOKS")}
    command = ["-m", "tests.sample_traces.model_faults_job", str(tmp_path), name]
    succeeded([fork(tmp_path / "job", command, {**clean, "OMP_NUM_THREADS": "1"})])
    with open_run(tmp_path / name) as run:
        assert run.sql("SELECT * FROM marks WHERE kind = 'hook_error'").num_rows == 0
        diagnosis = diagnose_run(run)
        for finding in diagnosis.findings:
            for evidence in finding.evidence:
                assert run.ask(evidence.question, **dict(evidence.params)).num_rows > 0
    return {one.kind: one for one in diagnosis.findings if one.kind in OF_THE_MODEL}


@pytest.mark.parametrize("found", OF_THE_MODEL, indirect=True, ids=OF_THE_MODEL)
def test_the_fault_is_found_in_its_step(
    found: dict[str, Finding], request: pytest.FixtureRequest
) -> None:
    kind = request.node.callspec.id
    assert set(found) - ALSO.get(kind, set()) == {kind}
    finding = found[kind]
    assert FROM <= finding.first_step <= FROM + 1
    assert finding.ongoing
    if kind != "stalled_updates":
        assert f"layer {LAYER} " in finding.text or f"blocks.{LAYER}." in finding.text


@pytest.mark.parametrize("found", ["healthy"], indirect=True)
def test_the_healthy_twin_is_silent(found: dict[str, Finding]) -> None:
    assert found == {}
