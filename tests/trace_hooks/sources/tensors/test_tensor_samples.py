"""Samples of tensors and their copies to the host."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from trace_hooks.recording.recorder import Recorder
from trace_hooks.sources.tensors import tensor_samples
from trace_hooks.sources.tensors.tensor_names import Place
from trace_hooks.sources.tensors.tensor_samples import (
    Copies,
    DueStep,
    TensorSample,
    checksum_of,
    own_part,
    peak_of,
    sampled,
    stride_of,
    tensors_in,
)
from trace_hooks.sources.training.module_parts import Part


def sample(value: float, **more: object) -> TensorSample:
    place = Place(0, "a", "output")
    values = torch.full((3,), value)
    return TensorSample("output", place, "", 0, 0, 3, values, values.max(), **more)  # type: ignore[arg-type]


def test_values_come_back_with_their_peak_and_checksum() -> None:
    weights = [torch.tensor([1.5, -2.0]), torch.tensor([3.0])]
    due = DueStep(7, [sample(1.0), sample(2.0, checksum=checksum_of(weights))])
    copies = Copies(Recorder())
    copies.send(due)
    (copy,) = copies.arrived()
    first, second = copy.values()
    assert (copy.step, first.values.tolist(), first.peak, first.checksum) == (
        7,
        [1.0] * 3,
        1.0,
        None,
    )
    bits = sum(int(tensor.view(torch.int32).sum()) for tensor in weights)
    assert second.checksum == bits
    assert due.tensors == []


def test_equal_bits_have_equal_checksums_of_every_sign() -> None:
    values = torch.tensor([-1.0, 2.5, -1e30])
    assert torch.equal(checksum_of([values]), checksum_of([values.clone()]))
    assert not torch.equal(checksum_of([values]), checksum_of([-values]))


def test_copies_beyond_the_bound_are_dropped_and_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tensor_samples, "MAX_COPIES", 1)
    recorder = Recorder()
    copies = Copies(recorder)
    for _ in range(3):
        copies.send(DueStep(0, [sample(1.0)]))
    assert (len(copies), recorder.dropped) == (1, 2)


def test_a_micro_batchs_output_replaces_one_without() -> None:
    part, due = Part(nn.ReLU(), "a"), DueStep(0)
    assert due.wants(part, -1)
    due.tensors.append(sample(1.0, part=id(part)))
    assert due.wants(part, 0)
    assert due.tensors == []
    assert not due.wants(part, 1)


@pytest.mark.parametrize(
    "tensor",
    [None, torch.ones(2, dtype=torch.int64), torch.empty(0), torch.ones(2).to_sparse()],
)
def test_other_tensors_have_no_values_to_sample(tensor: torch.Tensor | None) -> None:
    assert own_part(tensor) is None


def test_samples_meet_every_column() -> None:
    tensor = torch.arange(64.0 * 1_024).reshape(-1, 64)
    stride = stride_of([tensor])
    columns = {int(value) % 64 for value in sampled([tensor], stride)}
    assert stride > 1
    assert columns == set(range(64))


def test_a_peak_shows_what_is_not_finite() -> None:
    assert float(peak_of([torch.tensor([1.0, -3.0]), torch.zeros(2)])) == 3.0
    assert not peak_of([torch.tensor([1.0, torch.nan])]).isfinite()


def test_tensors_inside_an_output() -> None:
    one, two = torch.ones(1), torch.ones(2)
    for output in ((one, "x", two), [one, two], {"a": one, "b": two, "c": 3}):
        assert list(tensors_in(output)) == [one, two]
    assert list(tensors_in(one)) == [one]
