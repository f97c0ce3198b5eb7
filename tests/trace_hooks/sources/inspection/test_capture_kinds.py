"""Which heads, sequences and rows a watch takes from a call."""

from __future__ import annotations

import pytest
import torch

from trace_hooks.protocol.watches import Watch
from trace_hooks.sources.inspection import capture_kinds
from trace_hooks.sources.inspection.capture_kinds import (
    chosen_heads,
    output_of,
    probabilities_of,
    samples_of,
    token_rows,
)
from trace_hooks.sources.inspection.captures import ActiveWatch

AT = {"watch": "w", "what": "mlp", "layer": 0}


def test_heads_are_counted_over_the_whole_model() -> None:
    assert chosen_heads(Watch("w", "attention", heads=(5, 9)), num_heads=4, begin=4) == [1]
    assert chosen_heads(Watch("w", "attention"), num_heads=2, begin=4) == [0, 1]


def test_sequences_that_the_batch_lacks_are_left_out() -> None:
    assert samples_of(Watch("w", "mlp", samples=(0, 3)), num_samples=2) == [0]
    assert samples_of(Watch("w", "mlp", samples=None), num_samples=2) == [-1]


def test_rows_with_their_own_labels_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(capture_kinds, "MAX_TOKEN_ROWS", 4)
    rows = token_rows(Watch("w", "logits", tokens=(2, 11)), 16, 8)
    assert rows is not None
    assert (rows.begin, rows.every, rows.of(16)) == (2, 3, 4)


def test_an_output_of_any_shape_has_rows_and_columns() -> None:
    for shape in ((6,), (2, 6), (3, 2, 6)):
        (capture,) = output_of(ActiveWatch(Watch("w", "mlp")), torch.ones(shape), AT)
        assert capture.values.shape == (1, 2 if len(shape) > 1 else 1, 6)


def test_a_mean_over_the_batch() -> None:
    values = torch.stack([torch.zeros(2, 3), torch.full((2, 3), 4.0)])
    (capture,) = output_of(ActiveWatch(Watch("w", "mlp", samples=None)), values, AT)
    assert capture.each == [{"sample": -1}]
    assert bool((capture.values == 2).all())


def test_probabilities_come_with_their_tokens() -> None:
    logits = torch.arange(30.0).reshape(1, 1, 30)
    (capture,) = probabilities_of(ActiveWatch(Watch("w", "logits")), logits, AT)
    share, token = capture.values[0, 0].chunk(2)
    assert token.tolist() == list(range(29, 9, -1))
    assert torch.allclose(share, logits[0, 0].softmax(-1)[token.long()])
