"""Faults of the model on generated runs: each is found as itself, healthy ones are silent."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from app.analysis.diagnosis import diagnose_run
from app.analysis.finding_links import evidence_view
from app.view_state import View
from app.views.model.tensor_map import tensor_map
from diagnosis.findings import Finding
from ingest.run import open_run
from sample_traces.generate.faults import OF_THE_MODEL, SyntheticFault
from sample_traces.generate.job import SyntheticJob
from sample_traces.generate.tables.write import generate

FROM = 12
VALUE = {
    "share": "zero_ratio",
    "ratio": "update_ratio",
    "rms": "rms",
    "logit": "max_logit",
    "nats": "entropy",
}
"""Column of a question's answer that a unit of evidence is in."""
CHECKED = ("attention logit", "No head of", "Attention, MLPs", "Updates change")


def written(folder: Path, seed: int, *faults: SyntheticFault, level: str = "steps") -> Path:
    job = SyntheticJob(
        8, pp=2, tp=2, num_steps=36, level=level, seed=seed, faults=faults, statistics=1
    )
    generate(job, folder / "run")
    return folder / "run"


def findings(folder: Path) -> tuple[Finding, ...]:
    with open_run(folder) as run:
        return diagnose_run(run).findings


@pytest.mark.sampled
@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("kind", OF_THE_MODEL)
def test_a_fault_is_the_only_finding_and_its_numbers_can_be_queried_again(
    tmp_path: Path, kind: str, seed: int
) -> None:
    folder = written(tmp_path, seed, SyntheticFault(kind, None, 0.0, FROM))
    with open_run(folder) as run:
        (finding,) = diagnose_run(run).findings
        assert (finding.kind, finding.culprits) == (kind, ())
        assert abs(finding.first_step - FROM) <= 1
        for evidence in finding.evidence:
            rows = run.ask(evidence.question, **dict(evidence.params)).to_pylist()
            values = [row[VALUE[evidence.unit]] for row in rows]
            assert pytest.approx(evidence.number, rel=1e-6) in values
            shown = dict(evidence_view(evidence, View(run="run")).model)
            mapped = tensor_map(run, shown["tensor"], 0, None)
            row = [row.key for row in mapped.rows].index(shown["row"])
            series = mapped.values[shown["stat"]][row].tolist()
            assert pytest.approx(evidence.number, rel=1e-4) in series
        assert Finding.from_json(json.loads(json.dumps(finding.to_json()))) == finding


@pytest.mark.sampled
@pytest.mark.parametrize("seed", range(8))
def test_healthy_runs_are_silent_and_looked_at(tmp_path: Path, seed: int) -> None:
    with open_run(written(tmp_path, seed)) as run:
        diagnosis = diagnose_run(run)
    assert diagnosis.findings == ()
    for part in CHECKED:
        assert any(part in sentence for sentence in diagnosis.checked), part


def test_two_faults_at_once(tmp_path: Path) -> None:
    faults = (SyntheticFault(kind, None, 0.0, FROM) for kind in ("dead_units", "logit_growth"))
    reported = findings(written(tmp_path, 5, *faults))
    assert {finding.kind for finding in reported} == {"dead_units", "logit_growth"}


@pytest.mark.parametrize("level", ["steps", "spans"])
def test_faults_of_durations_are_not_faults_of_the_model(tmp_path: Path, level: str) -> None:
    texts = ("slow_worker=1,x=1.5", "gc_pauses", "data_loader", "slow_stage=1", "jit_spikes")
    faults = (SyntheticFault.parse(f"{text},from=10") for text in texts)
    reported = findings(written(tmp_path, 7, *faults, level=level))
    assert reported
    assert not {finding.kind for finding in reported} & set(OF_THE_MODEL)
