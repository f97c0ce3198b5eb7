"""dead_units on series built by hand: layers that die, healthy zeros, and what cannot be judged."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from diagnosis.detectors.dead_units import detect
from diagnosis.findings import Finding, Verdict
from tests.diagnosis.health_tables import EVERY, NUM_LOOKS, noisy, tables, tensor_rows


def judged(*rows: list[dict[str, Any]]) -> Verdict | None:
    return detect(tables([row for series in rows for row in series]), attempt=0)


def found(verdict: Verdict | None) -> Finding:
    assert verdict is not None
    (finding,) = verdict.findings
    return finding


def zeros(seed: int, sparse: float = 0.2) -> Any:
    """Of rectifiers on a batch: some zeros, slowly more."""
    return np.clip(noisy(sparse, seed) * (1 + np.arange(NUM_LOOKS) / 60), 0, 1)


@pytest.mark.parametrize("share", [1.0, 0.8, 0.55])
def test_most_gradients_of_a_layer_are_zero_from_some_step_on(share: float) -> None:
    died = zeros(1)
    died[14:] = share
    rows = (tensor_rows(n, "gradient", zero_ratio=zeros(n)) for n in range(3))
    finding = found(judged(*rows, tensor_rows(3, "gradient", zero_ratio=died)))
    assert (finding.kind, finding.first_step) == ("dead_units", 14 * EVERY)
    assert (finding.severity, finding.culprits) == ("urgent", ())
    assert finding.title == "Units of layer 3 are dead"
    assert finding.evidence[0].number == share
    assert dict(finding.evidence[0].params)["layer"] == 3


def test_two_layers_at_once_and_what_a_module_returns() -> None:
    died = np.where(np.arange(NUM_LOOKS) < 20, 0.0, 1.0)
    rows = [tensor_rows(n, "mlp", zero_ratio=died if n in (1, 4) else zeros(n)) for n in range(6)]
    finding = found(judged(*rows))
    assert (finding.title, finding.confidence) == ("Units of 2 layers are dead", "high")
    assert "layers.1.mlp" in finding.text
    assert "layers.4.mlp" in finding.text


def test_it_is_over_where_units_live_again() -> None:
    died = np.where((np.arange(NUM_LOOKS) >= 12) & (np.arange(NUM_LOOKS) < 20), 0.9, 0.1)
    finding = found(judged(tensor_rows(0, "gradient", zero_ratio=died)))
    assert (finding.severity, finding.last_step) == ("past", 19 * EVERY)


def test_a_module_that_only_ever_returns_zeros() -> None:
    finding = found(judged(tensor_rows(0, "attention", zero_ratio=np.ones(10))))
    assert finding.first_step == 0
    start = np.ones(NUM_LOOKS)  # a projection that begins with zeros
    start[1:] = 0
    assert judged(tensor_rows(0, "attention", zero_ratio=start)).findings == ()  # type: ignore[union-attr]


@pytest.mark.parametrize("seed", range(20))
def test_healthy_layers_are_silent(seed: int) -> None:
    sparse = (0.0, 0.1, 0.3, 0.45)[seed % 4]
    rows = [tensor_rows(n, "gradient", zero_ratio=zeros(seed + n, sparse)) for n in range(4)]
    rows += [tensor_rows(n, "mlp", zero_ratio=noisy(0.1, seed + n)) for n in range(4)]
    verdict = judged(*rows)
    assert verdict is not None
    assert verdict.findings == ()
    assert verdict.set_aside == ()
    assert "fewer than 50 % zeros, or no more than before, in " in (verdict.checked or "")


def test_what_is_zero_from_the_start_is_noted() -> None:
    shares = ([0.1] * 10, [0.93] * 10)
    rows = (tensor_rows(n, "gradient", zero_ratio=share) for n, share in enumerate(shares))
    verdict = judged(*rows)
    assert verdict is not None
    assert verdict.findings == ()
    (noted,) = verdict.set_aside
    assert "up to 93% zeros in the gradients of layers.1.mlp: no sample" in noted


def test_zeros_that_hover_around_half_or_come_once_are_silent() -> None:
    hovering = noisy(0.5, 3)
    once = np.zeros(NUM_LOOKS)
    once[15:18] = 1.0
    embedding = tensor_rows(-1, "gradient", zero_ratio=np.repeat([0.0, 1.0], 15))
    rows = (tensor_rows(n, "gradient", zero_ratio=s) for n, s in enumerate((hovering, once)))
    verdict = judged(*rows, embedding)
    assert verdict is not None
    assert (verdict.findings, verdict.set_aside) == ((), ())


def test_too_few_samples_are_not_enough_and_without_statistics_there_is_no_verdict() -> None:
    verdict = judged(tensor_rows(0, "mlp", zero_ratio=[1.0, 1.0, 1.0]))
    assert verdict is not None
    assert "3 steps with tensor statistics are too few" in verdict.not_enough[0].missing
    assert judged() is None
    assert judged(tensor_rows(0, "weight", zero_ratio=[0.0] * 9)) is None
