"""Noise of a fair router against simulated ones."""

from __future__ import annotations

import numpy as np
import pytest

from diagnosis.experts.fair_router import max_violation_noise, p01_least_load, p99_max_violation


def simulated(experts: int, top_k: int, tokens: int, num: int = 20_000) -> np.ndarray:
    """Loads / mean of `num` steps in which every choice is any expert: (num, experts)."""
    chance = np.random.default_rng(experts + tokens)
    loads = chance.multinomial(tokens * top_k, np.full(experts, 1 / experts), size=num)
    return loads / (tokens * top_k / experts)


@pytest.mark.parametrize(
    ("experts", "top_k", "tokens"),
    [(8, 2, 4_096), (128, 8, 4_096), (256, 8, 4_096), (256, 8, 32_768), (64, 6, 512), (8, 1, 64)],
)
def test_the_greatest_load_of_fair_routers(experts, top_k, tokens) -> None:
    noise = p99_max_violation(experts, top_k, tokens)
    seen = np.quantile(simulated(experts, top_k, tokens).max(axis=1) - 1, 0.99)
    assert noise == pytest.approx(seen, rel=0.06)


def test_known_figures() -> None:
    shapes = [(8, 2, 4_096), (128, 8, 4_096), (256, 8, 4_096), (256, 8, 32_768)]
    noises = [p99_max_violation(*shape) for shape in shapes]
    assert noises == pytest.approx([0.09, 0.245, 0.367, 0.125], abs=0.003)


@pytest.mark.parametrize(("experts", "top_k", "tokens"), [(8, 2, 4_096), (128, 8, 2_048)])
def test_the_least_load_of_fair_routers(experts, top_k, tokens) -> None:
    seen = np.quantile(simulated(experts, top_k, tokens).min(axis=1), 0.01)
    assert p01_least_load(experts, top_k, tokens) == pytest.approx(seen, abs=0.02)


@pytest.mark.parametrize(("experts", "top_k", "tokens"), [(8, 2, 1_024), (64, 6, 1_024)])
def test_routers_that_choose_distinct_experts_scatter_less(experts, top_k, tokens) -> None:
    chance = np.random.default_rng(3)
    greatest = []
    for _ in range(300):
        scores = chance.random((tokens, experts), dtype=np.float32)
        chosen = np.argpartition(scores, top_k - 1, axis=1)[:, :top_k]
        loads = np.bincount(chosen.ravel(), minlength=experts)
        greatest.append(loads.max() / loads.mean() - 1)
    noise = p99_max_violation(experts, top_k, tokens)
    assert np.mean(np.array(greatest) > noise) < 0.02
    assert np.quantile(greatest, 0.5) > noise * (1 - top_k / experts) ** 0.5 / 3


def test_noise_of_slices_and_of_steps() -> None:
    per_step = max_violation_noise(4, [8_192, 32_768])
    assert per_step[0] == pytest.approx(2 * per_step[1], rel=0.05)
    assert p99_max_violation(8, 2, 0) == float("inf")
    assert p01_least_load(8, 2, 0) == 0.0
    assert p99_max_violation(1, 1, 100) == 0.0
    with pytest.raises(ValueError, match="there are 0 parts"):
        max_violation_noise(0, [1])
