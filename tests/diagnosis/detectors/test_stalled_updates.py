"""stalled_updates on series built by hand: rates of nothing, gradients at eps, warm-ups."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from diagnosis.detectors.stalled_updates import detect
from diagnosis.findings import Finding, Verdict
from tests.diagnosis.health_tables import EVERY, NUM_LOOKS, noisy, tables, tensor_rows

LOOKS = np.arange(NUM_LOOKS)


def group(
    layer: int, ratio: Any, gradient: Any = None, zero: Any = None, weight: float = 0.02
) -> list[dict[str, Any]]:
    """Updates and gradients of one layer's MLP."""
    gradient = np.full(len(ratio), 1e-4) if gradient is None else gradient
    zero = np.zeros(len(ratio)) if zero is None else zero
    return tensor_rows(layer, "update", update_ratio=ratio, rms=np.asarray(ratio) * weight) + (
        tensor_rows(layer, "gradient", rms=gradient, zero_ratio=zero)
    )


def judged(*groups: list[dict[str, Any]], lr: Sequence[float | None] = ()) -> Verdict | None:
    return detect(tables([row for rows in groups for row in rows], lr=lr), attempt=0)


def found(verdict: Verdict | None) -> Finding:
    assert verdict is not None
    (finding,) = verdict.findings
    return finding


@pytest.mark.parametrize("ratio", [0.0, 1e-12, 4e-8])
def test_updates_that_change_no_weight_from_some_step_on(ratio: float) -> None:
    series = np.where(LOOKS < 12, noisy(1e-3, 1), ratio)
    finding = found(judged(*(group(n, series) for n in range(3)), lr=[1e-12]))
    assert (finding.kind, finding.first_step) == ("stalled_updates", 12 * EVERY)
    assert (finding.severity, finding.confidence) == ("urgent", "high")
    assert "a learning rate of 1.0e-12" in finding.text
    assert finding.evidence[0].number == ratio


@pytest.mark.parametrize("small", [1e-10, 2e-9, 9e-9])
def test_gradients_as_small_as_eps(small: float) -> None:
    gradient = np.where(LOOKS < 15, 1e-5, small)
    ratio = noisy(1e-3, 2, 0.02) * gradient / (gradient + 1e-8)
    others = (group(n, noisy(1e-3, n, 0.02)) for n in range(1, 4))
    finding = found(judged(group(0, ratio, gradient), *others))
    assert (finding.first_step, finding.severity) == (15 * EVERY, "warning")
    assert "layers.0.mlp are as small as Adam's eps" in finding.text
    assert finding.evidence[1].number == pytest.approx(small)
    assert (finding.evidence[1].question, finding.evidence[1].unit) == ("tensor_health", "rms")


def test_small_gradients_with_a_smaller_eps_are_no_stall() -> None:
    tiny = np.full(NUM_LOOKS, 1e-10)
    others = (group(n, noisy(1e-3, n)) for n in range(1, 4))
    assert judged(group(0, noisy(1e-3, 9), tiny), *others).findings == ()  # type: ignore[union-attr]


def test_a_rate_of_next_to_nothing_from_the_first_look_on() -> None:
    finding = found(judged(*(group(n, noisy(3e-7, n)) for n in range(3))))
    assert (finding.first_step, finding.confidence) == (0, "medium")


def test_two_layers_at_once() -> None:
    series = np.where(LOOKS < 12, 1e-3, 0.0)
    healthy = (group(n, noisy(1e-3, n)) for n in range(2, 5))
    finding = found(judged(group(0, series), group(1, series), *healthy))
    assert "layers.0.mlp, layers.1.mlp" in finding.text
    assert finding.severity == "warning"


def test_it_is_over_where_the_rate_comes_back() -> None:
    series = np.where((LOOKS >= 10) & (LOOKS < 18), 0.0, 1e-3)
    finding = found(judged(group(0, series)))
    assert (finding.severity, finding.last_step) == ("past", 17 * EVERY)


HEALTHY = {
    "steady": np.ones(NUM_LOOKS),
    "warming up": LOOKS / NUM_LOOKS,
    "warming up slowly": 1e-6 * LOOKS,
    "decaying to 0": np.cos(0.5 * np.pi * LOOKS / (NUM_LOOKS - 1)) ** 2,
    "fine tuning": np.full(NUM_LOOKS, 1e-2),
    "a step that is left out": np.where(LOOKS == 9, 0.0, 1.0),
}


@pytest.mark.parametrize("name", HEALTHY)
@pytest.mark.parametrize("seed", range(20))
def test_warm_ups_decays_and_small_rates_are_no_stall(name: str, seed: int) -> None:
    rows = (group(n, noisy(1e-3, seed + n) * HEALTHY[name]) for n in range(3))
    verdict = judged(*rows)
    assert verdict is not None
    assert verdict.findings == ()
    assert verdict.checked is not None


def test_gradients_that_are_zero_are_dead_and_no_stall() -> None:
    dead = np.where(LOOKS < 12, 0.0, 0.99)
    series = np.where(LOOKS < 12, 1e-3, 0.0)
    others = (group(n, noisy(1e-3, n)) for n in range(1, 4))
    assert judged(group(0, series, zero=dead), *others).findings == ()  # type: ignore[union-attr]


def test_weights_of_zero_have_no_ratio_and_few_samples_are_not_enough() -> None:
    unknown: list[float | None] = [None] * NUM_LOOKS
    rows = tensor_rows(0, "update", update_ratio=unknown, rms=np.ones(NUM_LOOKS))
    verdict = judged(rows)
    assert verdict is not None
    assert verdict.findings == ()
    verdict = judged(group(0, np.zeros(3)))
    assert verdict is not None
    assert "too few" in verdict.not_enough[0].missing
    assert judged() is None
    assert judged(tensor_rows(0, "mlp", zero_ratio=[0.0] * 9)) is None
