"""loss_spike on hand-built steps: spikes of loss and gradient norm, and healthy noise."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from diagnosis.detectors.loss_spike import detect
from diagnosis.findings import Verdict

STEPS = 60


def healthy(seed: int = 1, noise: float = 0.02) -> np.ndarray:
    falling = 2.0 + 6.0 * np.exp(-np.arange(STEPS) / 20)
    return falling * np.exp(np.random.default_rng(seed).normal(0, noise, STEPS))


def judged(loss: object = None, grad_norm: object = None) -> Verdict | None:
    def column(values: object) -> pa.Array:
        return pa.array([None] * STEPS if values is None else list(values), pa.float64())  # type: ignore[call-overload]

    columns = {"step": pa.array(range(STEPS), pa.int64()), "loss": column(loss)}
    return detect({"steps": pa.table({**columns, "grad_norm": column(grad_norm)})}, attempt=0)


@pytest.mark.parametrize("times", [50.0, 7.0])
def test_a_spike_of_the_loss_is_found_in_its_step(times: float) -> None:
    loss = healthy()
    loss[40] *= times
    (finding,) = judged(loss).findings  # type: ignore[union-attr]
    assert (finding.kind, finding.first_step, finding.last_step) == ("loss_spike", 40, 40)
    assert (finding.severity, finding.culprits) == ("past", ())
    assert finding.evidence[0].number == pytest.approx(times, rel=0.3)  # of a falling loss


def test_a_loss_that_stays_up_goes_on_spiking() -> None:
    loss = healthy()
    loss[30:] = 40.0
    (finding,) = judged(loss).findings  # type: ignore[union-attr]
    assert (finding.first_step, finding.last_step, finding.severity) == (30, STEPS - 1, "urgent")


def test_of_the_gradient_norm_alone_one_is_warned() -> None:
    norm = healthy()
    norm[-1] *= 9
    (finding,) = judged(healthy(2), norm).findings  # type: ignore[union-attr]
    assert (finding.severity, finding.confidence) == ("warning", "medium")
    assert "gradient norm" in finding.title


@pytest.mark.parametrize("seed", range(20))
def test_healthy_losses_are_silent(seed: int) -> None:
    verdict = judged(healthy(seed), healthy(seed, noise=0.4))
    assert verdict is not None
    assert verdict.findings == ()
    assert verdict.checked is not None


def test_noise_of_a_tiny_loss_is_no_spike() -> None:
    """A loss that is learned by heart wanders over orders of magnitude."""
    loss = np.exp(np.random.default_rng(3).normal(-9, 1.5, STEPS))
    assert judged(loss).findings == ()  # type: ignore[union-attr]


def test_the_first_steps_and_values_below_zero_are_not_judged() -> None:
    loss = healthy()
    loss[:5] *= 100
    assert judged(loss).findings == ()  # type: ignore[union-attr]
    assert judged(-healthy()).findings == ()  # type: ignore[union-attr]


def test_a_job_without_losses_is_not_judged() -> None:
    assert judged() is None
    assert judged([np.nan] * STEPS) is None


def test_one_step_is_too_few() -> None:
    one = pa.table({"step": [0], "loss": [2.0], "grad_norm": pa.array([None], pa.float64())})
    verdict = detect({"steps": one}, attempt=0)
    assert verdict is not None
    assert verdict.not_enough[0].missing.startswith("1 step is too few to know the usual loss")
