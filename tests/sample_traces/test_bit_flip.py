"""Four real replicas: one flipped bit of a weight is found, in its step and on its rank."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from app.analysis.diagnosis import diagnose_run
from diagnosis.findings import Diagnosis
from ingest.run import open_run
from tests.forks import fork, succeeded
from tests.sample_traces.bit_flip_job import FLIPPED_AFTER, STEPS

pytestmark = pytest.mark.torch


FLIPPED, NOBODY = 2, -1
"""The rank of a job whose bit flips."""


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> dict[int, Path]:
    """Folder of the run of each job, by its rank whose bit flips; most of a job is waiting."""
    clean = {key: value for key, value in os.environ.items() if not key.startswith("TRACE_HOOKS")}
    clean["OMP_NUM_THREADS"] = "1"
    jobs = {rank: tmp_path_factory.mktemp("bit flip") for rank in (FLIPPED, NOBODY)}
    command = ["-m", "tests.sample_traces.bit_flip_job"]
    succeeded(
        [
            fork(folder / "job", [*command, str(folder), str(rank)], clean)
            for rank, folder in jobs.items()
        ]
    )
    return {rank: folder / "job" for rank, folder in jobs.items()}


def diagnosed(folder: Path) -> Diagnosis:
    with open_run(folder) as run:
        assert run.sql("SELECT * FROM marks WHERE kind = 'hook_error'").num_rows == 0
        diagnosis = diagnose_run(run)
        for finding in diagnosis.findings:
            for evidence in finding.evidence:
                rows = run.ask(evidence.question, **dict(evidence.params)).to_pylist()
                if evidence.question == "weight_checksums":
                    assert evidence.number in [row["num_values"] for row in rows]
    return diagnosis


@pytest.mark.long
def test_the_rank_with_the_flipped_bit_is_named(trained: dict[int, Path]) -> None:
    findings = diagnosed(trained[FLIPPED]).findings
    (finding,) = (f for f in findings if f.kind == "silent_corruption")
    assert [place.rank for place in finding.culprits] == [FLIPPED]
    assert (finding.first_step, finding.last_step) == (FLIPPED_AFTER + 1, STEPS - 1)
    assert (finding.severity, finding.confidence) == ("urgent", "high")
    assert "blocks.1.mlp" in finding.text


@pytest.mark.long
def test_replicas_that_stay_equal_are_silent(trained: dict[int, Path]) -> None:
    diagnosis = diagnosed(trained[NOBODY])
    assert [f for f in diagnosis.findings if f.kind == "silent_corruption"] == []
    assert any("copies of" in sentence for sentence in diagnosis.checked)
