"""allocator_stalls on hand-built tables and on generated jobs."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from app.analysis.diagnosis import diagnose_run
from diagnosis.detectors.allocator_stalls import detect
from diagnosis.findings import Verdict
from ingest.run import open_run
from sample_traces.generate.faults import SyntheticFault
from sample_traces.generate.job import SyntheticJob
from sample_traces.generate.tables.write import generate
from tests.diagnosis.work_tables import RETRIES, Phases, phase_tables
from trace_hooks.layout import ParallelLayout

DP8 = ParallelLayout.from_sizes(dp=8)
STEPS = 40
HIT = (12, 20, 28, 36)


def stalling(ms: float) -> Phases:
    def phases(rank: int, step: int) -> dict[str, float]:
        longer = ms if step in HIT else 0.0
        own = longer if rank == 3 else 0.0
        return {"step_ms": 200 + longer, "compute_ms": 150 + own, "comm_ms": 40 + longer - own}

    return phases


def judged(ms: float, retries: bool = True) -> Verdict | None:
    rows = [{"rank": 3, "step": step, "num_retries": 1} for step in HIT if retries]
    tables = phase_tables(DP8, STEPS, stalling(ms))
    return detect({**tables, "allocator_retries": pa.Table.from_pylist(rows, RETRIES)}, attempt=0)


@pytest.mark.parametrize("ms", [100.0, 30.0, 10.0])
def test_a_rank_whose_allocator_asks_again(ms: float) -> None:
    verdict = judged(ms)
    assert verdict is not None
    (finding,) = verdict.findings
    assert (finding.kind, [p.rank for p in finding.culprits]) == ("allocator_stalls", [3])
    assert (finding.first_step, finding.evidence[0].number) == (12, 4)
    assert finding.cost is not None
    assert (finding.cost.ms_per_step or 0) * 28 == pytest.approx(4 * ms, rel=0.1)


def test_retries_that_cost_nothing_and_none_counted() -> None:
    verdict = judged(1.0)
    assert verdict is not None
    assert (verdict.findings, verdict.checked is not None) == ((), True)
    assert judged(100.0, retries=False) is None


@pytest.mark.parametrize("ms", [150, 40])
def test_generated_jobs_have_no_other_finding(tmp_path: Path, ms: int) -> None:
    planted = SyntheticFault.parse(f"allocator_stalls=5,ms={ms}")
    job = SyntheticJob(16, pp=2, tp=2, num_steps=40, num_microbatches=4, faults=(planted,))
    generate(job, tmp_path / "run")
    with open_run(tmp_path / "run") as run:
        (finding,) = diagnose_run(run).findings
    assert (finding.kind, [p.rank for p in finding.culprits]) == ("allocator_stalls", [5])
    assert finding.first_step == 0
