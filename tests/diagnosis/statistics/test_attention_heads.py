"""Statistics of single attention heads."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from diagnosis.statistics.attention_heads import evidence_of, head_series, named_heads, off_head
from diagnosis.statistics.sampled_series import Stretch
from tests.diagnosis.health_tables import HEADS, head_rows


def heads(entropy: list[float]) -> dict[str, pa.Table]:
    rows = [*head_rows(0, 0, entropy=[3.0] * len(entropy)), *head_rows(2, 1, entropy=entropy)]
    return {"attention_health": pa.Table.from_pylist(rows, HEADS)}


def test_without_statistics_there_is_no_series() -> None:
    assert head_series({"attention_health": pa.Table.from_pylist([], HEADS)}, "entropy") is None


def test_a_head_has_its_worst_sample_and_what_was_before() -> None:
    series = head_series(heads([3.0, 3.2, 0.1, 0.01, 0.2]), "entropy")
    assert series is not None
    row = [key[:2] for key in series.keys].index((2, 1))
    head = off_head(series, row, Stretch(2, 4), np.nanargmin)
    assert (head.layer, head.head, head.at, head.value) == (2, 1, 3, 0.01)
    assert head.before == 3.1
    assert named_heads([head]) == "layer 2 head 1"
    evidence = evidence_of(series, head, 0, "entropy", "it is low.", "nats")
    step = int(series.step_N[3])
    assert evidence.sentence == f"In step {step} it is low."
    assert dict(evidence.params) == {
        "step_min": step,
        "step_max": step,
        "layer": 2,
        "head": 1,
        "attempt": 0,
    }
    assert dict(evidence.view)["page"] == "model"
    assert np.isnan(off_head(series, row, Stretch(0, 4), np.nanargmin).before)
