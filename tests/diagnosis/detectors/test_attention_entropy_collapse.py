"""attention_entropy_collapse on series built by hand: heads that fall, layers that begin so."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from diagnosis.detectors.attention_entropy_collapse import detect
from diagnosis.findings import Finding, Verdict
from tests.diagnosis.health_tables import EVERY, NUM_LOOKS, head_rows, noisy, tables

LOOKS = np.arange(NUM_LOOKS)


def judged(*entropies: Any) -> Verdict | None:
    """One series a head, two heads a layer."""
    rows = [
        row
        for n, series in enumerate(entropies)
        for row in head_rows(n // 2, n % 2, entropy=series)
    ]
    return detect(tables(heads=rows), attempt=0)


def found(verdict: Verdict | None) -> Finding:
    assert verdict is not None
    (finding,) = verdict.findings
    return finding


@pytest.mark.parametrize("low", [0.0, 1e-3, 0.04])
def test_a_head_that_falls_to_one_token(low: float) -> None:
    falling = np.where(LOOKS < 13, noisy(3.0, 1), low)
    finding = found(judged(noisy(3.0, 2), noisy(3.0, 3), noisy(3.0, 4), falling))
    assert (finding.kind, finding.first_step) == ("attention_entropy_collapse", 13 * EVERY)
    assert (finding.severity, finding.confidence) == ("warning", "medium")
    assert "layer 1 head 1" in finding.text
    assert finding.evidence[0].number == low


def test_a_whole_layer_is_urgent() -> None:
    falling = np.where(LOOKS < 13, 3.0, 0.01)
    finding = found(judged(noisy(3.0, 2), noisy(3.0, 3), falling, falling))
    assert (finding.severity, finding.confidence) == ("urgent", "high")


def test_a_slow_fall_is_reported_where_it_reaches_one_token() -> None:
    falling = 4.0 * 0.8**LOOKS * noisy(1.0, 5, 0.01)
    finding = found(judged(falling, noisy(3.0, 2)))
    assert finding.first_step == EVERY * int(np.flatnonzero(falling <= 0.056)[0])


def test_layers_that_never_were_above() -> None:
    low = noisy(1e-3, 1)
    finding = found(judged(low, low, noisy(3.0, 3), noisy(3.0, 4)))
    assert (finding.first_step, finding.severity) == (0, "urgent")
    verdict = judged(low, noisy(3.0, 2))
    assert verdict is not None
    assert verdict.findings == ()
    assert "the attention of layer 0 head 0 is on one token alone" in verdict.set_aside[0]


@pytest.mark.parametrize("seed", range(20))
def test_healthy_heads_are_silent(seed: int) -> None:
    level = (4.0, 1.0, 0.2, 0.06)[seed % 4]  # also heads that look at one place, and noisy ones
    verdict = judged(*(noisy(level, seed + n, 0.2) * 0.99**LOOKS for n in range(6)), noisy(3.0, 5))
    assert verdict is not None
    assert verdict.findings == ()
    assert verdict.set_aside == ()
    assert "No head of 7" in (verdict.checked or "")


def test_what_is_not_known_is_left_out() -> None:
    unknown: list[float | None] = [None] * NUM_LOOKS
    assert judged(unknown, noisy(3.0, 1)).findings == ()  # type: ignore[union-attr]
    verdict = judged([0.0, 0.0, 0.0])
    assert verdict is not None
    assert "3 steps with attention statistics are too few" in verdict.not_enough[0].missing
    assert judged() is None
