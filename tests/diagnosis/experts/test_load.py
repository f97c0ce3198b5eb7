"""Measures of how evenly experts are loaded, on loads whose answer is known."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from diagnosis.experts.load import (
    layers_of,
    load_entropy,
    max_violation,
    ratio,
    saved_by_balance,
    slice_loads,
)

LOADS = np.array([[2.0, 2, 2, 2], [5, 1, 1, 1], [8, 0, 0, 0], [0, 0, 0, 0]])


def answer(rows: list[dict]) -> pa.Table:
    own = {"name": "mlp.router", "top_k": 2, "batch_tokens": 4}
    kinds = [("step", pa.int64()), ("layer", pa.int32()), ("name", pa.string())]
    kinds += [("top_k", pa.int32()), ("batch_tokens", pa.int64()), ("tokens", pa.list_(pa.int64()))]
    return pa.Table.from_pylist([own | row for row in rows], pa.schema(kinds))


def test_max_violation() -> None:
    assert max_violation(LOADS) == pytest.approx([0.0, 1.5, 3.0, np.nan], nan_ok=True)
    assert ratio(LOADS)[1] == pytest.approx([2.5, 0.5, 0.5, 0.5])


def test_entropy() -> None:
    of_5111 = -(5 / 8 * np.log(5 / 8) + 3 / 8 * np.log(1 / 8)) / np.log(4)
    assert load_entropy(LOADS) == pytest.approx([1.0, of_5111, 0.0, np.nan], nan_ok=True)
    assert load_entropy(np.array([[7.0]])) == pytest.approx([1.0])


def test_loads_of_ep_ranks() -> None:
    assert slice_loads(LOADS, [(0, 2), (2, 2)])[1] == pytest.approx([6, 2])
    with pytest.raises(ValueError, match="experts 3 to 4 are not among the 4 of the layer"):
        slice_loads(LOADS, [(3, 2)])


def test_layers_of_an_answer() -> None:
    rows = [
        {"step": 1, "layer": 3, "tokens": [1, 7]},
        {"step": 0, "layer": 3, "tokens": [4, 4]},
        {"step": 0, "layer": 1, "tokens": [1, 1, 6], "top_k": -1},
        {"step": 0, "layer": 2, "tokens": [1, 1], "top_k": -1, "batch_tokens": -1},
        {"step": 0, "layer": 4, "tokens": [1, 2, 3]},  # the model has changed since
        {"step": 1, "layer": 4, "tokens": [1, 2]},
        {"step": 1, "layer": 5, "tokens": []},
    ]
    first, second, third, fourth = layers_of(answer(rows))
    assert (first.layer, first.top_k, first.experts) == (1, 2, 3)
    assert (second.top_k, second.choices_S.tolist()) == (1, [2.0])
    assert third.step_S.tolist() == [0, 1]
    assert third.tokens_SE.tolist() == [[4, 4], [1, 7]]
    assert (third.greatest_ratio, fourth.step_S.tolist()) == (1.0, [1])
    assert layers_of(answer([])) == []


def test_what_balance_saves() -> None:
    assert saved_by_balance(np.array([1.5, 1.0, np.nan]), 40.0) == pytest.approx(10.0)
    assert saved_by_balance(np.array([np.nan]), 40.0) == 0.0
