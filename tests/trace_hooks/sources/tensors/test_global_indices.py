"""Indices in the whole model."""

from __future__ import annotations

import torch
from torch import nn

from tests.trace_hooks.tiny_models import TinyGPT, tracing
from trace_hooks.sources.tensors.global_indices import (
    GlobalPlaces,
    coordinates,
    first_index,
    has_all_columns,
    holds_first_copy,
    tensor_parallel,
)


def test_stages_that_count_from_0_follow_each_other() -> None:
    model = TinyGPT(blocks=2)
    with tracing("modules") as traced:
        traced.watch(model, stage=3)
        places = GlobalPlaces(traced.context)
        assert places.layers() == [6, 7]
        assert places.parameter_layer("layers.1.mlp.0.weight", 3) == 7
        assert places.parameter_layer("embedding.weight", 3) == -1


def test_a_layer_number_counts_more_than_a_name() -> None:
    model = TinyGPT(blocks=2)
    for number, layer in enumerate(model.layers):
        layer.layer_number = 5 + number  # Megatron's, from 1
    with tracing("modules") as traced:
        traced.watch(model)
        assert GlobalPlaces(traced.context).layers() == [4, 5]


def test_plain_tensors_are_whole_on_every_rank() -> None:
    tensor = torch.ones(2, 3)
    assert tensor_parallel(nn.Linear(2, 2), None) == (0, 1)
    assert first_index(tensor, -1) == 0
    assert has_all_columns(tensor, "whole")
    assert not has_all_columns(tensor, "tp=1")
    assert coordinates(None) == {}


def test_of_copies_only_the_first_is_captured() -> None:
    tensor = torch.ones(2)
    assert holds_first_copy(tensor, {"dp": 0, "tp": 0})
    assert not holds_first_copy(tensor, {"dp": 1, "tp": 0})
    assert not holds_first_copy(tensor, {"dp": 0, "tp": 1})
    tensor.tensor_model_parallel = True  # type: ignore[attr-defined]  # Megatron's mark
    assert holds_first_copy(tensor, {"dp": 0, "tp": 1})
