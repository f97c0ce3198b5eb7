"""logit_growth on series built by hand: jumps, slow growth, divergence, heads that are sharp."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from diagnosis.detectors.logit_growth import detect
from diagnosis.findings import Finding, Verdict
from tests.diagnosis.health_tables import EVERY, NUM_LOOKS, head_rows, noisy, tables

LOOKS = np.arange(NUM_LOOKS)


def judged(*logits: Any) -> Verdict | None:
    """One series a head, two heads a layer."""
    rows = [
        row for n, series in enumerate(logits) for row in head_rows(n // 2, n % 2, max_logit=series)
    ]
    return detect(tables(heads=rows), attempt=0)


def found(verdict: Verdict | None) -> Finding:
    assert verdict is not None
    (finding,) = verdict.findings
    return finding


@pytest.mark.parametrize(
    ("times", "severity"), [(5000.0, "urgent"), (200.0, "warning"), (20.0, "warning")]
)
def test_a_head_whose_logits_jump(times: float, severity: str) -> None:
    jumping = noisy(8.0, 1) * np.where(LOOKS < 13, 1.0, times)
    finding = found(judged(noisy(8.0, 2), noisy(8.0, 3), noisy(8.0, 4), jumping))
    assert (finding.kind, finding.first_step) == ("logit_growth", 13 * EVERY)
    assert (finding.severity, finding.culprits) == (severity, ())
    assert "layer 1 head 1" in finding.text
    assert finding.evidence[0].number == jumping.max()
    params = dict(finding.evidence[0].params)
    assert (params["layer"], params["head"]) == (1, 1)


@pytest.mark.parametrize(("begin", "level"), [(5.0, 100.0), (150.0, 1000.0)])
def test_growth_is_reported_where_it_crosses_a_level(begin: float, level: float) -> None:
    growing = noisy(begin, 1, 0.02) * 1.2**LOOKS
    finding = found(judged(growing))
    assert finding.first_step == EVERY * int(np.flatnonzero(growing > level)[0])
    assert finding.ongoing


def test_two_heads_and_the_worst_of_them() -> None:
    jump = np.where(LOOKS < 13, 8.0, 400.0)
    finding = found(judged(jump, noisy(8.0, 2), 2 * jump))
    assert "layer 0 head 0, layer 1 head 0" in finding.text
    assert finding.evidence[0].number == 800.0


def test_above_1e4_it_needs_no_past() -> None:
    finding = found(judged(np.full(NUM_LOOKS, 2e4)))
    assert (finding.first_step, finding.severity, finding.confidence) == (0, "urgent", "high")


def test_logits_that_come_down_again_are_past() -> None:
    jump = np.where((LOOKS >= 10) & (LOOKS < 18), 500.0, 8.0)
    finding = found(judged(jump))
    assert (finding.severity, finding.last_step) == ("past", 17 * EVERY)


@pytest.mark.parametrize("seed", range(20))
def test_healthy_heads_are_silent(seed: int) -> None:
    level = (2.0, 20.0, 99.0, 300.0)[seed % 4]  # also sharp ones, and ones that QK-clip holds
    drift = 1.01**LOOKS if level < 50 else np.ones(NUM_LOOKS)
    verdict = judged(*(noisy(level, seed + n) * drift for n in range(6)))
    assert verdict is not None
    assert verdict.findings == ()
    assert "No attention logit of 6 heads" in (verdict.checked or "")


def test_values_that_are_not_finite_are_left_out() -> None:
    jump = np.where(LOOKS < 13, 8.0, 400.0)
    jump[[5, 20]] = np.inf, np.nan
    finding = found(judged(jump))
    assert (finding.first_step, finding.evidence[0].number) == (13 * EVERY, 400.0)


def test_what_is_not_known_is_left_out() -> None:
    unknown: list[float | None] = [None] * NUM_LOOKS
    assert judged(unknown).findings == ()  # type: ignore[union-attr]
    verdict = judged([5.0, 5.0])
    assert verdict is not None
    assert "2 steps with attention statistics are too few" in verdict.not_enough[0].missing
    assert judged() is None
