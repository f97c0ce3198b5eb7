"""The cost of micro-batches by the lengths of their sequences."""

from __future__ import annotations

import numpy as np
import pytest

from diagnosis.loading.cost_model import CostModel, fit_cost


def drawn(num: int, seed: int = 1) -> tuple[np.ndarray, np.ndarray]:
    """Tokens and squared lengths of micro-batches of 1 to 8 sequences."""
    source = np.random.default_rng(seed)
    lengths = [source.integers(1, 2_000, source.integers(1, 9)) for _ in range(num)]
    tokens = np.array([own.sum() for own in lengths], np.float64)
    return tokens, np.array([np.square(own).sum() for own in lengths], np.float64)


def test_the_numbers_come_back() -> None:
    tokens, squares = drawn(60)
    model = fit_cost(tokens, squares, 3 + 0.01 * tokens + 2e-5 * squares)
    assert model is not None
    assert (model.fixed_ms, model.token_ms, model.square_ms) == pytest.approx((3, 0.01, 2e-5))
    assert model.error < 1e-6
    assert model.of([10, 20]) == pytest.approx(3 + 0.3 + 2e-5 * 500)


def test_noise_shows_as_error_and_interrupted_micro_batches_do_not_count() -> None:
    tokens, squares = drawn(400)
    source = np.random.default_rng(2)
    ms = (3 + 2e-5 * squares) * source.normal(1, 0.05, 400)
    ms[::20] *= 5  # interrupted
    model = fit_cost(tokens, squares, ms)
    assert model is not None
    assert model.square_ms == pytest.approx(2e-5, rel=0.05)
    assert 0.02 < model.error < 0.06


def test_no_number_is_negative() -> None:
    tokens, squares = drawn(50)
    model = fit_cost(tokens, squares, 1e-5 * squares / (1 + tokens / 1e4))
    assert model is not None
    assert min(model.fixed_ms, model.token_ms, model.square_ms) >= 0


@pytest.mark.parametrize("num", [0, 5])
def test_few_micro_batches_make_no_model(num: int) -> None:
    tokens, squares = drawn(num)
    assert fit_cost(tokens, squares, np.ones(num)) is None


def test_micro_batches_that_are_all_alike_make_no_model() -> None:
    alike = np.full(50, 100.0)
    assert fit_cost(alike, alike**2, alike) is None


def test_the_model_is_a_sum() -> None:
    model = CostModel(1.0, 0.5, 0.25, 0.0, 12)
    assert model.of([]) == 1.0
    assert model.of([2, 4]) == 1.0 + 3.0 + 0.25 * 20
