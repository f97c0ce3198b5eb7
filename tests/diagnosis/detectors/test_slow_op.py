"""slow_op on runs with named operations: one that becomes slow on all ranks, and all that do."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from app.analysis.diagnosis import diagnose_run
from diagnosis.findings import Finding
from ingest.run import open_run
from tests.runs_builder import RunBuilder
from trace_hooks.layout import ParallelLayout

STEPS, FROM, RANKS, LAYERS = 40, 18, 4, 3


def diagnosed(
    folder: Path,
    slow: dict[str, float],
    ranks: range = range(RANKS),
    waits_us: float = 0.0,
    passes: tuple[str, ...] = (),
    mlp_us: float = 8_000.0,
    fills_to_us: float = 0.0,
) -> list[Finding]:
    """Layers with an attention and an mlp inside, all forward; `slow`: factor by operation;
    `waits_us`: how long each last mlp holds waiting for others, too; `passes`: kinds and names of
    both in place of their own, with nothing around them. `fills_to_us`: least length of steps.
    """
    builder = RunBuilder(folder, RANKS, ParallelLayout.from_sizes(dp=RANKS))
    builder.group(7, list(range(RANKS)), "dp")
    random = np.random.default_rng(2)
    now = 0.0
    for step in range(STEPS):
        ends, begin = [], now
        for rank in range(RANKS):
            at = begin
            for layer in range(LAYERS):
                first = at
                for op, usual_us in (("attention", 4_000.0), ("mlp", mlp_us)):
                    x = slow.get(op, 1.0) if step >= FROM and rank in ranks else 1.0
                    took = usual_us * x * float(np.exp(random.normal(0, 0.005)))
                    is_last = op == "mlp" and layer == LAYERS - 1
                    took += waits_us if is_last and step >= FROM else 0.0
                    name, kind = f"layers.{layer}.{op}", "forward"
                    if passes:
                        name = kind = passes[op == "mlp"]
                    depth = 0 if passes else 1
                    builder.span(rank, step, kind, at, at + took, name=name, depth=depth)
                    at += took
                if not passes:
                    builder.span(rank, step, "forward", first, at, name=f"layers.{layer}")
            ends.append(at)
        now = max(*ends, begin + fills_to_us) + 2_000.0
        for rank, end in enumerate(ends):
            builder.span(rank, step, "dp_comm", end, now, group_id=7, coll_seq=step)
            builder.collective(rank, step, 7, step, end, now)
            builder.step(rank, step, begin, now)
    builder.rank_files()
    builder.publish()
    with open_run(builder.folder) as run:
        return list(diagnose_run(run).findings)


@pytest.mark.parametrize("x", [3.0, 1.8, 1.4])
def test_the_operation_is_named(tmp_path: Path, x: float) -> None:
    (finding,) = diagnosed(tmp_path / "run", {"attention": x})
    assert (finding.kind, finding.culprits) == ("slow_op", ())
    assert abs(finding.first_step - FROM) <= 1
    assert "layers.*.attention" in finding.title
    assert finding.slowdown == pytest.approx(x, rel=0.03)
    assert finding.confidence == "high"
    assert finding.cost is not None
    assert finding.cost.ms_per_step == pytest.approx(LAYERS * 4.0 * (x - 1), rel=0.05)


def test_an_operation_by_which_all_compute_rises_by_four_percent_is_named(tmp_path: Path) -> None:
    (finding,) = diagnosed(tmp_path / "run", {"attention": 1.13})
    assert (finding.kind, finding.first_step) == ("slow_op", pytest.approx(FROM, abs=1))


@pytest.mark.parametrize(
    "slow", [{"attention": 1.06}, {"attention": 1.045, "mlp": 1.045}], ids=["too little", "all"]
)
def test_less_and_what_all_operations_do_is_not(tmp_path: Path, slow: dict[str, float]) -> None:
    assert diagnosed(tmp_path / "run", slow) == []


def test_an_operation_with_nearly_all_compute_does_as_all_do(tmp_path: Path) -> None:
    slow = dict.fromkeys(("attention", "mlp"), 1.2)
    findings = diagnosed(tmp_path / "run", slow, mlp_us=20_000.0)
    assert {finding.kind for finding in findings} == {"step_regression"}


def test_an_operation_that_nobody_waits_for_is_not(tmp_path: Path) -> None:
    assert diagnosed(tmp_path / "run", {"attention": 1.13}, fills_to_us=60_000.0) == []


def test_all_operations_together_are_no_one_operation(tmp_path: Path) -> None:
    (finding,) = diagnosed(tmp_path / "run", {"attention": 1.4, "mlp": 1.4})
    assert finding.kind == "step_regression"


def test_one_rank_is_a_slow_worker(tmp_path: Path) -> None:
    (finding,) = diagnosed(tmp_path / "run", {"attention": 1.8}, range(1, 2))
    assert (finding.kind, [p.rank for p in finding.culprits]) == ("slow_worker", [1])


def test_waiting_in_the_last_span_of_each_step_is_no_slow_operation(tmp_path: Path) -> None:
    findings = diagnosed(tmp_path / "run", {}, waits_us=12_000.0)
    assert "slow_op" not in {finding.kind for finding in findings}


@pytest.mark.parametrize("passes", [("backward", "forward"), ("compute", "forward")])
def test_a_pass_whose_operations_have_no_spans_is_no_operation(
    tmp_path: Path, passes: tuple[str, str]
) -> None:
    (finding,) = diagnosed(tmp_path / "run", {"attention": 1.8}, passes=passes)
    assert finding.kind == "step_regression"


def test_healthy(tmp_path: Path) -> None:
    assert diagnosed(tmp_path / "run", {}) == []
