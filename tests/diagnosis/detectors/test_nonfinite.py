"""nonfinite on hand-built tables: the loss, tensors, both, and norms alone."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pyarrow as pa

from app.analysis.diagnosis import diagnose_run
from diagnosis.detectors.nonfinite import detect
from diagnosis.findings import Verdict
from ingest.run import open_run
from tests.diagnosis.answer_schema import answer_schema
from tests.runs_builder import T0, RunBuilder

STEPS = 30
TENSORS = answer_schema(
    "step BIGINT, rank INTEGER, stage INTEGER, layer INTEGER, tensor VARCHAR, name VARCHAR, "
    "nonfinite BIGINT"
)


def bad(step: int, tensor: str, layer: int, rank: int = 0, stage: int = 0) -> dict[str, Any]:
    return {
        "step": step,
        "rank": rank,
        "stage": stage,
        "layer": layer,
        "tensor": tensor,
        "name": f"layers.{layer}",
        "nonfinite": 5,
    }


def judged(loss: list[Any], norm: list[Any] | None = None, *rows: dict[str, Any]) -> Verdict | None:
    steps = {
        "step": pa.array(range(STEPS), pa.int64()),
        "loss": pa.array(loss, pa.float64()),
        "grad_norm": pa.array(norm or [None] * STEPS, pa.float64()),
    }
    tensors = pa.Table.from_pylist(list(rows), schema=TENSORS)
    return detect({"steps": pa.table(steps), "nonfinite_tensors": tensors}, attempt=0)


def test_a_loss_that_is_nan_from_some_step_on() -> None:
    verdict = judged([2.0] * 20 + [math.nan] * 10)
    assert verdict is not None
    (finding,) = verdict.findings
    assert (finding.kind, finding.first_step, finding.severity) == ("nonfinite", 20, "urgent")
    assert finding.evidence[0].number == 10
    assert finding.culprits == ()
    assert finding.text == "The loss is NaN or infinite since step 20, in 10 of the sampled steps."


def test_a_single_one_that_is_over_is_past() -> None:
    verdict = judged([2.0] * 9 + [math.inf] + [2.0] * 20)
    assert verdict is not None
    assert verdict.findings[0].severity == "past"
    assert verdict.findings[0].text == "The loss is NaN or infinite in step 9, not since then."
    assert verdict.findings[0].evidence[0].sentence == "The loss is not finite in step 9."


def test_where_it_begins_is_the_lowest_output_that_is_not_finite() -> None:
    rows = [
        bad(20, "weight", 0),
        bad(20, "residual", 3, stage=1),
        bad(20, "mlp", 2, rank=5, stage=1),
        bad(24, "residual", 0),
    ]
    verdict = judged([None] * STEPS, None, *rows)
    assert verdict is not None
    (finding,) = verdict.findings
    assert (finding.first_step, finding.title) == (20, "Tensors of the model are NaN or infinite")
    assert "It begins in layers.2 (mlp) of rank 5." in finding.text
    assert (finding.evidence[0].question, finding.evidence[0].number) == ("nonfinite_tensors", 5)


def test_loss_and_tensors_are_one_finding() -> None:
    verdict = judged([2.0] * 21 + [math.nan] * 9, None, bad(20, "gradient", 1))
    assert verdict is not None
    (finding,) = verdict.findings
    assert (finding.first_step, len(finding.evidence)) == (20, 2)
    assert "layers.1 (gradients) of rank 0" in finding.text


def test_gradient_norms_alone_are_set_aside() -> None:
    verdict = judged([2.0] * STEPS, [math.inf] * 3 + [1.0] * 27)
    assert verdict is not None
    assert verdict.findings == ()
    assert "not finite in 3 steps, first in step 0" in verdict.set_aside[0]


def test_one_value_and_one_step_are_written_as_one() -> None:
    verdict = judged([2.0] * STEPS, [1.0] * 5 + [math.nan] + [1.0] * 24)
    assert verdict is not None
    assert verdict.set_aside[0].startswith("The gradient norm is not finite in step 5, and")
    verdict = judged([2.0] * STEPS, None, bad(20, "mlp", 2) | {"nonfinite": 1})
    assert verdict is not None
    sentence = verdict.findings[0].evidence[0].sentence
    assert sentence == "In step 20 1 value of layers.2 (mlp) of rank 0 is not finite."


def test_finite_losses_are_checked_and_without_any_there_is_no_verdict() -> None:
    verdict = judged([2.0] * STEPS)
    assert verdict is not None
    assert (verdict.findings, verdict.checked) == (
        (),
        "The loss is finite in all 30 steps that logged it.",
    )
    assert judged([None] * STEPS) is None


def test_of_a_whole_run_the_question_gives_the_number_again(tmp_path: Path) -> None:
    run = RunBuilder(tmp_path / "run", 1)
    row = {"ts_ns": T0, "microbatch": -1, "chunk": -1, "shard": "", "count": 8, "sampled": 8}
    for step in range(8):
        run.step(0, step, 100 * step, 100 * step + 100, loss=2.0 if step < 6 else math.nan)
    for tensor, layer in (("mlp", 1), ("residual", 2)):
        run.add(
            "tensor_stats",
            0,
            5,
            tensor=tensor,
            layer=layer,
            name=f"layers.{layer}",
            zero_ratio=0.0,
            nonfinite=4,
            log2_counts=[0] * 64,
            **row,
        )
    run.rank_files()
    run.publish()
    with open_run(run.folder) as opened:
        findings = [f for f in diagnose_run(opened).findings if f.kind == "nonfinite"]
        assert [(f.first_step, f.last_step) for f in findings] == [(5, 7)]
        assert "begins in layers.1 (mlp) of rank 0" in findings[0].text
        loss, tensor = findings[0].evidence
        losses = opened.ask(loss.question, **dict(loss.params)).to_pylist()
        assert sum(math.isnan(row["loss"]) for row in losses) == loss.number == 2
        (first, _) = opened.ask(tensor.question, **dict(tensor.params)).to_pylist()
        assert first["nonfinite"] == tensor.number


def test_one_step_is_spoken_of_as_one() -> None:
    finite = judged([2.0] + [None] * 29)
    assert finite is not None
    assert finite.checked == "The loss is finite in the 1 step that logged it."
