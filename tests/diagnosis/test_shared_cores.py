"""Ranks that share cores: what their transfers and CPU time cannot show."""

from __future__ import annotations

import pytest

from diagnosis.detectors import link_flap, slow_network, step_regression
from diagnosis.statistics.phase_times import kept_from_cores, phase_times
from tests.diagnosis.transfer_tables import transfer_tables
from tests.diagnosis.work_tables import Phases, phase_tables
from trace_hooks.layout import ParallelLayout

PP2_DP2_TP2 = ParallelLayout.from_sizes(pp=2, dp=2, tp=2)


def on_cores(cpu_ms: float) -> Phases:
    """Compute of 150 ms, so much of it CPU time."""
    return lambda rank, step: {"cpu_ms": cpu_ms, "compute_ms": 150.0}


@pytest.mark.parametrize(
    ("device", "cpu_ms", "kept"),
    [("cpu", 30.0, True), ("cpu", 140.0, False), ("cuda:0", 30.0, False)],
)
def test_ranks_wait_for_cores(device: str, cpu_ms: float, kept: bool) -> None:
    tables = phase_tables(PP2_DP2_TP2, 20, on_cores(cpu_ms), device=device)
    sentence = kept_from_cores(phase_times(tables))
    assert (sentence is not None) == kept
    assert sentence is None or "80 % of their compute time" in sentence


def test_work_that_takes_longer_on_shared_cores_is_no_regression() -> None:
    """By a fifth: caches are shared, too."""

    def phases(rank: int, step: int) -> dict[str, float]:
        return {"cpu_ms": 30.0 if step < 15 else 36.0, "compute_ms": 150.0}

    tables = phase_tables(PP2_DP2_TP2, 30, phases, device="cpu")
    verdict = step_regression.detect({**tables, "op_times": tables["rank_phases"]}, attempt=0)
    assert (verdict.findings, verdict.checked) == ((), None)
    assert "wait for CPU cores" in verdict.not_enough[0].missing


@pytest.mark.parametrize(("times", "found"), [(20.0, 1), (2.0, 0)])
def test_a_link_that_is_far_slower_than_others_is_slow_on_shared_cores_too(
    times: float, found: int
) -> None:
    layout = ParallelLayout.from_sizes(pp=2, dp=4, tp=2)

    def factor(axis: str, ranks: tuple[int, ...], step: int) -> float:
        return times if ranks == (3, 11) and step >= 8 else 1.0

    on_own = transfer_tables(layout, 20, factor)
    shared = phase_tables(layout, 20, on_cores(30.0), device="cpu")
    tables = {**on_own, **{name: shared[name] for name in ("rank_phases", "rank_places")}}
    verdict = slow_network.detect(tables, attempt=0)
    assert [f.kind for f in verdict.findings] == ["slow_link"] * found
    assert all(finding.confidence != "high" for finding in verdict.findings)
    assert "wait for CPU cores" in verdict.not_enough[0].missing
    assert link_flap.detect(tables, attempt=0).not_enough
