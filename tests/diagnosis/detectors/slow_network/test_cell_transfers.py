"""Slow links and networks of StragglerAnalysis traces, simulated apart from the what-if replay."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest
import yaml

from app.analysis.diagnosis import tables_of
from app.analysis.imports import open_any
from diagnosis.detectors import DETECTORS
from diagnosis.detectors.slow_network import NAME, detect
from diagnosis.findings import Finding
from sample_traces.generate.straggler_trace import MegatronJob, straggler_trace


def found(folder: Path, job: MegatronJob) -> list[Finding]:
    pq.write_table(straggler_trace(job), folder / "trace-job.parquet")
    (folder / "meta-job.yaml").write_text(yaml.safe_dump(job.metadata))
    own = [detector for detector in DETECTORS if detector.name == NAME]
    with open_any(folder / "trace-job.parquet") as run:
        findings = detect(tables_of(run, 0, (0, 100), chosen=own), 0).findings
        for evidence in (one for finding in findings for one in finding.evidence):
            assert run.ask(evidence.question, **dict(evidence.params)).num_rows
    return list(findings)


@pytest.mark.parametrize("vpp", [1, 2])
def test_a_slow_link(tmp_path: Path, vpp: int) -> None:
    job = MegatronJob(4, 4, tp=2, vpp=vpp, num_steps=12, slow_links=((1, 2, 20.0),))
    (finding,) = found(tmp_path, job)
    assert finding.kind == "slow_link"
    assert [place.rank for place in finding.culprits] == [12, 20]
    assert finding.slowdown == pytest.approx(20, rel=0.1)
    assert (finding.first_step, finding.last_step) == (0, 11)


def test_a_slow_network_of_replicas(tmp_path: Path) -> None:
    (finding,) = found(tmp_path, MegatronJob(4, 4, num_steps=12, slow_networks=((2, 4.0),)))
    assert (finding.kind, finding.stages) == ("slow_dp_network", (2,))
    assert [place.rank for place in finding.culprits] == [8, 9, 10, 11]


@pytest.mark.sampled(every=2)
@pytest.mark.parametrize(
    "job",
    [
        MegatronJob(4, 4, num_steps=12),
        MegatronJob(4, 4, vpp=2, num_steps=12, slow=((1, 2, 1.5),)),
        MegatronJob(4, 4, num_steps=12, spread=0.3),
        MegatronJob(1, 8, num_steps=12),
    ],
    ids=["healthy", "slow worker", "uneven", "one stage"],
)
def test_a_network_in_order(tmp_path: Path, job: MegatronJob) -> None:
    assert found(tmp_path, job) == []
