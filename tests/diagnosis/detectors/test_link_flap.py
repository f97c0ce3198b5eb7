"""Transfers that stand still now and then, and those that last or strike everybody."""

from __future__ import annotations

import numpy as np
import pytest

from diagnosis.detectors.link_flap import detect
from diagnosis.findings import Verdict
from tests.diagnosis.transfer_tables import Factor, transfer_tables
from trace_hooks.layout import ParallelLayout

PP4_DP4_TP2 = ParallelLayout.from_sizes(pp=4, dp=4, tp=2)
STEPS = 40
STRUCK = (10, 11, 12, 21, 22, 30)


def judged(factor: Factor, seed: int = 1, noise: float = 0.03) -> Verdict:
    return detect(transfer_tables(PP4_DP4_TP2, STEPS, factor, seed=seed, noise=noise), attempt=0)


@pytest.mark.parametrize("x", [200.0, 20.0])
def test_now_and_then(x: float) -> None:
    (finding,) = judged(lambda _, ranks, s: x if ranks == (9, 17) and s in STRUCK else 1).findings
    assert finding.kind == "link_flap"
    assert [place.rank for place in finding.culprits] == [9, 17]
    assert (finding.first_step, finding.last_step) == (10, 30)
    assert "in 6 of 40 steps" in finding.evidence[1].sentence


def test_once_for_seconds() -> None:
    (finding,) = judged(lambda _, ranks, s: 6_000 if ranks == (9, 17) and s == 20 else 1).findings
    assert (finding.first_step, finding.severity) == (20, "past")
    assert finding.confidence == "medium"
    assert finding.title == "Link of ranks 9 and 17 halted"
    assert finding.text.startswith("Single transfers stopped in step 20, for ")


def test_once_for_less_is_nothing() -> None:
    assert judged(lambda _, ranks, s: 200 if ranks == (9, 17) and s == 20 else 1).findings == ()


def test_connections_made_in_the_first_step_are_no_flap() -> None:
    assert judged(lambda axis, ranks, s: 6_000 if s == 0 and axis == "link" else 1).findings == ()


def test_what_lasts_is_no_flap() -> None:
    assert judged(lambda _, ranks, s: 50 if ranks == (9, 17) and s >= 10 else 1).findings == ()


def test_a_job_that_stands_still_is_no_flap() -> None:
    assert judged(lambda axis, ranks, s: 500 if s in STRUCK else 1).findings == ()


@pytest.mark.parametrize("seed", range(5))
def test_a_network_on_which_all_links_are_struck_at_times(seed: int) -> None:
    random = np.random.default_rng(seed)
    struck = {
        (ranks, s)
        for s in range(STEPS)
        for ranks in ((0, 8), (1, 9), (9, 17), (3, 11), (12, 20))
        if random.random() < 0.1
    }
    assert judged(lambda _, ranks, s: 60 if (ranks, s) in struck else 1, seed).findings == ()


@pytest.mark.parametrize("seed", range(5))
def test_a_healthy_network(seed: int) -> None:
    verdict = judged(lambda axis, ranks, step: 1.0, seed, noise=0.3)
    assert verdict.findings == ()
    assert verdict.checked is not None
