"""What frameworks measure themselves, as spans."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch.utils.data import DataLoader

from tests.trace_hooks.tracers import rows, start
from trace_hooks.integrations.nested_spans import NestedSpans

pytestmark = pytest.mark.torch


@pytest.mark.usefixtures("plain_environment")
def test_batches_of_what_a_framework_calls_its_evaluation_are_no_batches_of_a_step(
    tmp_path: Path,
) -> None:
    tracer = start(tmp_path, sources=["data"])
    spans, which = NestedSpans(tracer.recorder, {"eval": "evaluation"}, ()), object()
    for step in range(3):
        if step == 1:
            spans.begin(which, "eval")
            list(DataLoader(torch.arange(6), batch_size=2))
            spans.end(which)
        with tracer.step(step):
            list(DataLoader(torch.arange(2), batch_size=2))
    tracer.stop()
    assert [row["step"] for row in rows(tmp_path, "data_batches")] == [0, 1, 2]
    assert [row["name"] for row in rows(tmp_path, "spans") if row["kind"] == "evaluation"] == [
        "eval"
    ]
