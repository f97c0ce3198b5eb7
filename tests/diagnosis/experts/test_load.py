"""Measures of how evenly experts are loaded, on loads whose answer is known."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from diagnosis.experts.load import (
    ep_rank_loads,
    layers_of,
    load_entropy,
    max_violation,
    ratio,
    saved_by_balance,
)

LOADS = np.array([[2.0, 2, 2, 2], [5, 1, 1, 1], [8, 0, 0, 0], [0, 0, 0, 0]])


def answer(rows: list[dict]) -> pa.Table:
    own = {"name": "mlp.router", "top_k": 2, "batch_tokens": 4, "dropped": 0}
    kinds = [("step", pa.int64()), ("layer", pa.int32()), ("name", pa.string())]
    kinds += [("top_k", pa.int32()), ("batch_tokens", pa.int64()), ("dropped", pa.int64())]
    kinds += [("tokens", pa.list_(pa.int64()))]
    return pa.Table.from_pylist([own | row for row in rows], pa.schema(kinds))


def test_max_violation() -> None:
    assert max_violation(LOADS) == pytest.approx([0.0, 1.5, 3.0, np.nan], nan_ok=True)
    assert ratio(LOADS)[1] == pytest.approx([2.5, 0.5, 0.5, 0.5])


def test_entropy() -> None:
    of_5111 = -(5 / 8 * np.log(5 / 8) + 3 / 8 * np.log(1 / 8)) / np.log(4)
    assert load_entropy(LOADS) == pytest.approx([1.0, of_5111, 0.0, np.nan], nan_ok=True)
    assert load_entropy(np.array([[7.0]])) == pytest.approx([1.0])


def test_loads_of_ep_ranks() -> None:
    assert ep_rank_loads(LOADS, [(0, 2), (2, 2)])[1] == pytest.approx([6, 2])
    with pytest.raises(ValueError, match="experts 3 to 4 are not among the 4 of the layer"):
        ep_rank_loads(LOADS, [(3, 2)])


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


def test_a_layer_with_several_routers_and_routers_without_a_layer() -> None:
    rows = [
        {"step": 0, "layer": 3, "name": "encoder.3", "tokens": [9, 1]},
        {"step": 0, "layer": 3, "name": "decoder.3", "tokens": [1, 9]},
        {"step": 0, "layer": 4, "name": "decoder.4", "tokens": [5, 5]},
        {"step": 0, "layer": -1, "name": "gate", "tokens": [5, 5]},
    ]
    found = layers_of(answer(rows))
    assert [one.where for one in found] == [
        "gate", "layer 3 (decoder.3)", "layer 3 (encoder.3)", "layer 4"
    ]  # fmt: skip
    assert [(one.router, one.num_routers) for one in found] == [(0, 1), (0, 2), (1, 2), (0, 1)]
    assert found[1].tokens_SE.tolist() == [[1, 9]]


def test_part_of_the_choices_that_is_left_out() -> None:
    rows = [{"step": step, "layer": 0, "tokens": [4, 4], "dropped": 2} for step in range(3)]
    (load,) = layers_of(answer([*rows, {"step": 3, "layer": 0, "tokens": [4, 4], "dropped": -1}]))
    assert load.dropped_share == pytest.approx(0.2)
    (unknown,) = layers_of(answer([{"step": 0, "layer": 0, "tokens": [4, 4], "dropped": -1}]))
    assert unknown.dropped_share == 0.0


def test_what_balance_saves() -> None:
    assert saved_by_balance(np.array([1.5, 1.0, np.nan]), 40.0) == pytest.approx(10.0)
    assert saved_by_balance(np.array([np.nan]), 40.0) == 0.0
