"""In which steps experts are dead, on loads whose shares are known."""

from __future__ import annotations

import numpy as np

from diagnosis.experts.load import LayerLoad
from diagnosis.experts.stretches import DEAD, dead_experts

EXPERTS, EXPERT, TOKENS = 8, 5, 10_000


def load_of(*stretches: tuple[float, int]) -> LayerLoad:
    """A layer whose expert 5 has these loads / mean, each for so many steps."""
    chance = np.random.default_rng(0)
    loads = [load for load, num_steps in stretches for _ in range(num_steps)]
    share_SE = np.array([np.full(EXPERTS, (1 - load / EXPERTS) / (EXPERTS - 1)) for load in loads])
    share_SE[:, EXPERT] = np.array(loads) / EXPERTS
    tokens_SE = np.stack([chance.multinomial(TOKENS, share_E) for share_E in share_SE])
    step_S = np.arange(len(loads))
    return LayerLoad(0, "router", 2, step_S, tokens_SE.astype(float), np.zeros(len(loads)))


def found_in(load: LayerLoad) -> list[tuple[int, int, int]]:
    return [(one.expert, one.first_step, one.last_step) for one in dead_experts(load)]


def test_an_expert_that_dies_twice_is_dead_twice() -> None:
    load = load_of((0.0, 150), (1.0, 700), (0.0, 150))
    assert found_in(load) == [(EXPERT, 0, 149), (EXPERT, 850, 999)]
    assert all(one.level == 0.0 for one in dead_experts(load))


def test_an_expert_is_dead_since_its_load_fell_not_since_it_was_weak() -> None:
    assert found_in(load_of((0.3, 600), (0.0, 150))) == [(EXPERT, 600, 749)]


def test_an_expert_that_has_tokens_again_is_dead_no_longer() -> None:
    assert found_in(load_of((1.0, 40), (0.0, 120), (1.0, 3))) == [(EXPERT, 40, 159)]


def test_next_to_no_tokens_are_as_none() -> None:
    ((expert, first, last),) = found_in(load_of((1.0, 50), (DEAD / 4, 150)))
    assert (expert, last) == (EXPERT, 199)
    assert abs(first - 50) <= 1


def test_an_expert_that_is_dead_for_fewer_steps_is_not_named() -> None:
    assert found_in(load_of((1.0, 50), (0.0, 99), (1.0, 50))) == []
