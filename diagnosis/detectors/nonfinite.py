"""nonfinite: the loss, or a tensor of the model, is NaN or infinite.

Of tensors, where they were sampled (docs/hooks.md), the first step shows where it begins: the
lowest layer whose output is not finite, else the parameters. No rank is named: by the end of one
step collectives have brought it everywhere.

Source: ByteRobust (2509.16293) stops jobs on a loss or gradient norm that is not finite. Known
false positives: gradients that the job itself puts right in its own optimizer. A gradient norm
alone is set aside: with a GradScaler it is infinite now and then, and the step is left out. Blind
spots: jobs that neither log the loss nor record statistics; NaN between two steps with statistics
that a later step has put right. Cost: one pass over the steps.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from diagnosis.findings import Evidence, Finding, Verdict
from diagnosis.statistics.episodes import OVER_AFTER_STEPS
from diagnosis.statistics.evidence_links import question_params
from diagnosis.statistics.rank_tables import Bools, Ints
from diagnosis.statistics.units import when_text

NAME = "nonfinite"
KINDS = ("nonfinite",)
QUESTIONS = ("steps", "nonfinite_tensors")

OUTPUTS = ("residual", "attention", "mlp")


def detect(tables: Mapping[str, pa.Table], attempt: int) -> Verdict | None:
    """Verdict on the steps in `tables`; None where there are neither losses nor statistics."""
    step_S: Ints = tables["steps"]["step"].to_numpy().astype(np.int64)
    known_S, bad_S = _bad(tables["steps"], "loss")
    rows = tables["nonfinite_tensors"].to_pylist()
    bad_steps = sorted({*step_S[bad_S].tolist(), *(row["step"] for row in rows)})
    if bad_steps:
        return Verdict(NAME, (_finding(step_S, bad_S, rows, bad_steps, attempt),))
    aside = _norm_set_aside(tables["steps"], step_S)
    if known_S.any():
        num_steps = int(known_S.sum())
        steps = f"all {num_steps:,} steps" if num_steps > 1 else "the 1 step"
        checked = f"The loss is finite in {steps} that logged it."
        return Verdict(NAME, checked=checked, set_aside=aside)
    return None


def _bad(steps: pa.Table, name: str) -> tuple[Bools, Bools]:
    """Which steps logged a value, and which of these are not finite."""
    values = steps[name].to_pylist()
    known_S = np.array([value is not None for value in values], dtype=np.bool_)
    finite_S = np.array([value is not None and np.isfinite(value) for value in values], np.bool_)
    return known_S, known_S & ~finite_S


def _norm_set_aside(steps: pa.Table, step_S: Ints) -> tuple[str, ...]:
    _, bad_S = _bad(steps, "grad_norm")
    if not bad_S.any():
        return ()
    return (
        f"The gradient norm is not finite {_in_steps(step_S[bad_S])}, and the loss stays finite: "
        "with a GradScaler such steps are left out.",
    )


def _in_steps(step_N: Ints) -> str:
    if step_N.size == 1:
        return f"in step {step_N[0]}"
    return f"in {step_N.size} steps, first in step {step_N[0]}"


def _finding(
    step_S: Ints, bad_S: Bools, rows: list[dict[str, Any]], bad_steps: list[int], attempt: int
) -> Finding:
    first, last = bad_steps[0], bad_steps[-1]
    in_loss = bool(bad_S.any())
    newest = int(step_S[-OVER_AFTER_STEPS:][0]) if step_S.size else last
    ongoing = last >= newest
    begins = [row for row in rows if row["step"] == rows[0]["step"]]
    where = f" It begins in {_place(_origin(begins))}." if begins else ""
    how_many = f", in {len(bad_steps)} of the sampled steps" if last > first else ""
    what = "The loss is" if in_loss else "Tensors of the model are"
    return Finding(
        kind="nonfinite",
        attempt=attempt,
        severity="urgent" if ongoing else "past",
        confidence="high",
        title=f"{what} NaN or infinite",
        text=f"{what} NaN or infinite {when_text(first, last, ongoing)}{how_many}.{where}",
        first_step=first,
        last_step=last,
        ongoing=ongoing,
        evidence=_evidence(step_S, bad_S, begins, (first, last), attempt),
        alternatives=(
            "One broken device (silent corruption): repeat the step on other devices.",
            "Numbers of the job: learning rate, an overflow in 16 bits, a division by zero, a "
            "batch without a valid token.",
        ),
        next_step="Go back to the last checkpoint before that step; look at the layer where it "
        "begins (question nonfinite_tensors), at the batch of the step and at the loss scale.",
        cause="A value that is not finite came up and spreads with every operation on it.",
    )


def _origin(begins: list[dict[str, Any]]) -> dict[str, Any]:
    """The row where it begins: outputs before parameters, and by stage and layer."""
    outputs = [row for row in begins if row["tensor"] in OUTPUTS]
    return min(outputs or begins, key=lambda row: (row["stage"], row["layer"], row["rank"]))


def _place(row: dict[str, Any]) -> str:
    tensor = row["tensor"] if row["tensor"] in OUTPUTS else f"{row['tensor']}s"
    return f"{row['name']} ({tensor}) of rank {row['rank']}"


def _evidence(
    step_S: Ints, bad_S: Bools, begins: list[dict[str, Any]], steps: tuple[int, int], attempt: int
) -> tuple[Evidence, ...]:
    params = question_params(steps[0], steps[1], attempt)
    view = (("page", "timeline"), ("attempt", attempt), ("steps", (steps[0], steps[0])))
    evidence = []
    if bad_S.any():
        number = int(bad_S.sum())
        sentence = f"The loss is not finite {_in_steps(step_S[bad_S])}."
        evidence.append(Evidence(sentence, number, "steps", "steps", params, view))
    if begins:
        origin = _origin(begins)
        at = question_params(origin["step"], origin["step"], attempt)
        number = origin["nonfinite"]
        values, are = ("value", "is") if number == 1 else ("values", "are")
        sentence = (
            f"In step {origin['step']} {number:,} {values} of {_place(origin)} {are} not finite."
        )
        evidence.append(Evidence(sentence, number, "values", "nonfinite_tensors", at, view))
    return tuple(evidence)
