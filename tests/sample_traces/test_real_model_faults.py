"""Faults of the model in training that really runs: each is found, the healthy twin is silent."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from app.analysis.diagnosis import diagnose_run
from diagnosis.findings import Finding
from ingest.run import open_run
from sample_traces.generate.faults import OF_THE_MODEL
from tests.forks import fork, succeeded
from tests.sample_traces.model_faults_job import FAULTS, FROM, LAYER

pytestmark = pytest.mark.torch

ALSO = {
    "attention_entropy_collapse": {"logit_growth"},
    "logit_growth": {"attention_entropy_collapse"},
}
"""What else is true of it: queries and keys that large have large logits, and see one key each."""


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of the runs of all jobs, each named after its fault; most of a job is waiting."""
    runs = tmp_path_factory.mktemp("model faults")
    clean = {key: value for key, value in os.environ.items() if not key.startswith("TRACE_HOOKS")}
    clean["OMP_NUM_THREADS"] = "1"
    command = ["-m", "tests.sample_traces.model_faults_job", str(runs)]
    succeeded([fork(runs / f"{name}.job", [*command, name], clean) for name in FAULTS])
    return runs


def found(runs: Path, name: str) -> dict[str, Finding]:
    """Findings of the model in the job with that fault."""
    with open_run(runs / name) as run:
        assert run.sql("SELECT * FROM marks WHERE kind = 'hook_error'").num_rows == 0
        diagnosis = diagnose_run(run)
        for finding in diagnosis.findings:
            for evidence in finding.evidence:
                assert run.ask(evidence.question, **dict(evidence.params)).num_rows > 0
    return {one.kind: one for one in diagnosis.findings if one.kind in OF_THE_MODEL}


@pytest.mark.long
@pytest.mark.parametrize("kind", OF_THE_MODEL)
def test_the_fault_is_found_in_its_step(trained: Path, kind: str) -> None:
    findings = found(trained, kind)
    assert set(findings) - ALSO.get(kind, set()) == {kind}
    finding = findings[kind]
    assert FROM <= finding.first_step <= FROM + 1
    assert finding.ongoing
    if kind != "stalled_updates":
        assert f"layer {LAYER} " in finding.text or f"blocks.{LAYER}." in finding.text


@pytest.mark.long
def test_the_healthy_twin_is_silent(trained: Path) -> None:
    assert found(trained, "healthy") == {}
