"""Pauses in StragglerAnalysis traces, simulated apart from the what-if replay."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest
import yaml

from app.analysis.diagnosis import diagnose_run
from app.analysis.imports import open_any
from diagnosis.findings import Diagnosis
from sample_traces.generate.straggler_trace import MegatronJob, straggler_trace


def diagnosed(folder: Path, job: MegatronJob) -> Diagnosis:
    pq.write_table(straggler_trace(job), folder / "trace-job.parquet")
    (folder / "meta-job.yaml").write_text(yaml.safe_dump(job.metadata))
    with open_any(folder / "trace-job.parquet") as run:
        diagnosis = diagnose_run(run)
        for evidence in (one for finding in diagnosis.findings for one in finding.evidence):
            assert run.ask(evidence.question, **dict(evidence.params)).num_rows
    return diagnosis


@pytest.mark.sampled
@pytest.mark.parametrize(("pause_s", "vpp"), [(0.4, 1), (0.05, 2)], ids=["loud", "masked"])
def test_pauses_are_the_only_finding(tmp_path: Path, pause_s: float, vpp: int) -> None:
    job = MegatronJob(2, 4, vpp=vpp, num_steps=20, pause_s=pause_s, since=8)
    (finding,) = diagnosed(tmp_path, job).findings
    assert (finding.kind, finding.culprits) == ("gc_pauses", ())
    assert finding.first_step == 8
    assert finding.cost is not None
    # a pause in the pipeline costs what the stages cannot make up for
    assert 0.3 * pause_s < (finding.cost.ms_per_step or 0) / 1e3 <= 1.01 * pause_s


@pytest.mark.sampled
@pytest.mark.parametrize(
    "job",
    [MegatronJob(2, 4, num_steps=16, spread=0.3), MegatronJob(4, 2, num_steps=16, seed=3)],
    ids=["uneven work", "healthy"],
)
def test_without_pauses_none_are_reported(tmp_path: Path, job: MegatronJob) -> None:
    diagnosis = diagnosed(tmp_path, job)
    assert "gc_pauses" not in [finding.kind for finding in diagnosis.findings]
    assert any("pauses in forward passes" in sentence for sentence in diagnosis.checked)
