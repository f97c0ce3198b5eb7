"""Samples of a due step go to the host once it ends, and become rows on the drain thread."""

from __future__ import annotations

import pytest
import torch

from tests.trace_hooks.tiny_models import Tracing
from trace_hooks.schema import UNKNOWN
from trace_hooks.sources.tensors.sampled_source import SampledSource
from trace_hooks.sources.tensors.tensor_names import Place
from trace_hooks.sources.tensors.tensor_samples import Copy, DueStep, TensorSample

pytestmark = pytest.mark.torch


class Sums(SampledSource):
    """The sum of each sample."""

    name = "sums"

    def step_begin(self) -> None:
        self._due = DueStep(self.rank_state.step)
        place = Place(2, "layers.2.mlp", "mlp")
        values = torch.arange(4.0)
        self._due.tensors.append(TensorSample("mlp", place, "tp=1", 3, 1, 4, values, None))

    def _publish(self, copy: Copy) -> None:
        for sample, values, _, _ in copy.values():
            self.recorder.add_row("sums", step=copy.step, **sample.columns(), sum=values.sum())


@pytest.fixture
def traced() -> Tracing:
    return Tracing()


@pytest.fixture
def source(traced: Tracing) -> Sums:
    return Sums(traced.context)


def test_rows_say_when_and_where_their_sample_was_taken(traced: Tracing, source: Sums) -> None:
    source.step_begin()
    source.poll()
    assert traced.rows("sums") == []
    source.step_end()
    source.poll()
    (row,) = traced.rows("sums")
    assert (row["step"], row["sum"]) == (UNKNOWN, 6.0)
    place = ("microbatch", "chunk", "layer", "name", "shard")
    assert [row[name] for name in place] == [1, 3, 2, "layers.2.mlp", "tp=1"]


def test_what_was_sampled_last_is_written_at_the_end(traced: Tracing, source: Sums) -> None:
    source.step_begin()
    source.uninstall()
    assert len(traced.rows("sums")) == 1


def test_without_a_due_step_nothing_is_copied(traced: Tracing, source: Sums) -> None:
    source.step_end()
    source.poll()
    assert traced.rows("sums") == []
