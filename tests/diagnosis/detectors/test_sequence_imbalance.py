"""sequence_imbalance: uneven micro-batches on generated jobs, and what only looks like them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from app.analysis.diagnosis import diagnose_run
from diagnosis.detectors.sequence_imbalance import detect
from diagnosis.findings import Finding, Verdict
from diagnosis.statistics.pipeline_time import pipeline_time
from ingest.run import open_run
from sample_traces.generate.faults import SyntheticFault
from sample_traces.generate.job import SyntheticJob
from sample_traces.generate.tables.write import generate
from tests.diagnosis.work_tables import phase_tables
from trace_hooks.layout import ParallelLayout

SIZES = {"num_ranks": 16, "pp": 2, "tp": 2, "num_steps": 24}


def diagnosed(folder: Path, *faults: str, seed: int = 1, **sizes: object) -> tuple[Finding, ...]:
    planted = tuple(map(SyntheticFault.parse, faults))
    job = SyntheticJob(**{**SIZES, **sizes}, seed=seed, faults=planted)  # type: ignore[arg-type]
    generate(job, folder)
    with open_run(folder) as run:
        return diagnose_run(run).findings


@pytest.mark.sampled
@pytest.mark.parametrize("level", ["spans", "steps"])
@pytest.mark.parametrize("x", [1.8, 1.4, 1.2])
def test_uneven_micro_batches(tmp_path: Path, x: float, level: str) -> None:
    (finding,) = diagnosed(tmp_path / "run", f"sequence_imbalance,x={x},from=6", level=level)
    assert (finding.kind, finding.culprits, finding.stages) == ("sequence_imbalance", (), ())
    assert abs(finding.first_step - 6) <= 2
    assert finding.confidence == "high"
    numbers = {one.unit: one.number for one in finding.evidence if one.question != "rank_phases"}
    assert numbers["correlation"] > 0.9
    assert any("sum(l^2)" in one.sentence for one in finding.evidence)


def test_one_replica_without_peers(tmp_path: Path) -> None:
    sizes = {"num_ranks": 4, "pp": 4, "tp": 1}
    (finding,) = diagnosed(tmp_path / "run", "sequence_imbalance,x=1.5", **sizes)
    assert finding.kind == "sequence_imbalance"


def test_the_cost_is_what_the_fault_added(tmp_path: Path) -> None:
    steps = {}
    for name, faults in (("even", ()), ("uneven", ("sequence_imbalance,x=1.4",))):
        diagnosis = diagnosed(tmp_path / name, *faults)
        with open_run(tmp_path / name) as run:
            steps[name] = np.median(run.ask("rank_phases").column("step_ms").to_numpy())
    assert diagnosis[0].cost is not None
    added = steps["uneven"] - steps["even"]
    assert diagnosis[0].cost.ms_per_step == pytest.approx(added, rel=0.2)


@pytest.mark.parametrize(("num", "stages"), [(8, 4), (4, 8), (1, 1), (3, 2)])
def test_even_micro_batches_take_what_1f1b_takes(num: int, stages: int) -> None:
    forward = np.ones((num, 1, 1))
    assert pipeline_time(forward, 2 * forward, stages) == pytest.approx(3 * (num + stages - 1))


@pytest.mark.sampled
@pytest.mark.parametrize(
    "fault",
    [
        "slow_worker=5,x=1.4,from=8",
        "slow_stage=1,x=1.3,from=8",
        "gc_pauses,ms=60",
        "host_contention=0,x=1.5,from=8",
        "jit_spikes,ms=100",
    ],
)
def test_other_faults_are_not_taken_for_uneven_work(tmp_path: Path, fault: str) -> None:
    kinds = {finding.kind for finding in diagnosed(tmp_path / "run", fault)}
    assert "sequence_imbalance" not in kinds


@pytest.mark.sampled
@pytest.mark.parametrize("seed", range(6))
def test_healthy_jobs(tmp_path: Path, seed: int) -> None:
    assert diagnosed(tmp_path / "run", seed=seed, pp=1 + seed % 2, tp=1 + seed // 3) == ()


def judged(forward_RSB: np.ndarray, backward_RSB: np.ndarray) -> Verdict:
    num_ranks, num_steps, _ = forward_RSB.shape
    rank, step, micro = np.indices(forward_RSB.shape).reshape(3, -1)
    unknown = pa.nulls(rank.size, pa.float64())
    work = pa.table(
        {
            "rank": rank,
            "step": step,
            "microbatch": micro,
            "chunk": np.zeros(rank.size, np.int64),
            "forward_ms": forward_RSB.ravel(),
            "backward_ms": backward_RSB.ravel(),
            "forward_cpu_ms": unknown,
            "backward_cpu_ms": unknown,
            "tokens": unknown,
            "sum_sq_len": unknown,
        }
    )
    total = (forward_RSB + backward_RSB).sum(axis=2)
    longest = total.max(axis=0)
    tables = phase_tables(
        ParallelLayout.from_sizes(dp=num_ranks),
        num_steps,
        lambda r, s: {
            "compute_ms": total[r, s],
            "step_ms": longest[s] + 20.0,
            "comm_ms": longest[s] - total[r, s] + 15.0,
        },
    )
    no_lengths = {name: [] for name in ("step", "rank", "microbatch", "lengths")}
    given = {"microbatch_work": work, "batch_lengths": pa.table(no_lengths)}
    return detect({**tables, **given}, attempt=0)


def noisy(random: np.random.Generator, mean_ms: float, spread: float = 0.01) -> np.ndarray:
    return mean_ms * np.exp(random.normal(0, spread, (8, 20, 8)))


def test_forwards_and_backwards_that_spread_apart_from_each_other_are_noise() -> None:
    random = np.random.default_rng(5)
    verdict = judged(noisy(random, 10, 0.25), noisy(random, 20, 0.25))
    assert verdict.findings == ()
    assert verdict.checked is not None


@pytest.mark.parametrize(("spread", "num"), [(0.3, 1), (0.0, 0)])
def test_waiting_in_the_last_backward_is_left_out(spread: float, num: int) -> None:
    """Each rank waits there for the one that took longest."""
    random = np.random.default_rng(9)
    work = noisy(random, 1.0, spread) if spread else np.ones((8, 20, 8))
    forward, backward = noisy(random, 10) * work, noisy(random, 20) * work
    total = (forward + backward).sum(axis=2)
    late = random.uniform(0, 60, (8, 20))  # what others wait for, too
    backward[:, :, -1] += (total + late).max(axis=0) - total
    findings = judged(forward, backward).findings
    assert [finding.kind for finding in findings] == ["sequence_imbalance"] * num


def test_a_place_in_the_step_that_is_always_longer_is_no_uneven_work() -> None:
    random = np.random.default_rng(6)
    longer = np.where(np.arange(8) == 0, 2.0, 1.0)
    assert judged(noisy(random, 10) * longer, noisy(random, 20) * longer).findings == ()


def test_uneven_work_that_costs_nothing_is_no_finding() -> None:
    """The same uneven batches everywhere: nobody waits for anybody."""
    random = np.random.default_rng(7)
    work = np.exp(random.normal(0, 0.05, (1, 20, 8)))
    work = work / work.mean(axis=2, keepdims=True)
    assert judged(noisy(random, 10) * work, noisy(random, 20) * work).findings == ()


def test_without_forwards_and_backwards() -> None:
    verdict = judged(np.zeros((8, 20, 8)), np.zeros((8, 20, 8)))
    assert verdict.findings == ()
    assert verdict.not_enough
