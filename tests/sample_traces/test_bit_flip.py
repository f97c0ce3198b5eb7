"""Four real replicas: one flipped bit of a weight is found, in its step and on its rank."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from app.findings import diagnose_run
from diagnosis.findings import Diagnosis
from ingest.store import open_run
from tests.forks import fork, succeeded
from tests.sample_traces.bit_flip_job import FLIPPED_AFTER, STEPS

pytestmark = pytest.mark.torch


def diagnosed(folder: Path, rank: int) -> Diagnosis:
    clean = {key: value for key, value in os.environ.items() if not key.startswith("TRACE_HOOKS")}
    command = ["-m", "tests.sample_traces.bit_flip_job", str(folder), str(rank)]
    succeeded([fork(folder / "job", command, {**clean, "OMP_NUM_THREADS": "1"})])
    with open_run(folder / "job") as run:
        assert run.sql("SELECT * FROM marks WHERE kind = 'hook_error'").num_rows == 0
        diagnosis = diagnose_run(run)
        for finding in diagnosis.findings:
            for evidence in finding.evidence:
                rows = run.ask(evidence.question, **dict(evidence.params)).to_pylist()
                if evidence.question == "weight_checksums":
                    assert evidence.number in [row["num_values"] for row in rows]
    return diagnosis


def test_the_rank_with_the_flipped_bit_is_named(tmp_path: Path) -> None:
    found = [f for f in diagnosed(tmp_path, 2).findings if f.kind == "silent_corruption"]
    (finding,) = found
    assert [place.rank for place in finding.culprits] == [2]
    assert (finding.first_step, finding.last_step) == (FLIPPED_AFTER + 1, STEPS - 1)
    assert (finding.severity, finding.confidence) == ("urgent", "high")
    assert "blocks.1.mlp" in finding.text


def test_replicas_that_stay_equal_are_silent(tmp_path: Path) -> None:
    diagnosis = diagnosed(tmp_path, -1)
    assert [f for f in diagnosis.findings if f.kind == "silent_corruption"] == []
    assert any("copies of" in sentence for sentence in diagnosis.checked)
