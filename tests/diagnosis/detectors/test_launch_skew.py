"""launch_skew, host_contention and slow workers of phase logs, on hand-built tables."""

from __future__ import annotations

import numpy as np
import pytest

from diagnosis.detectors.launch_skew import detect
from diagnosis.findings import Verdict
from tests.diagnosis.work_tables import Phases, phase_tables
from trace_hooks.layout import ParallelLayout

PP2_DP8_TP2 = ParallelLayout.from_sizes(pp=2, dp=8, tp=2)
STEPS, FROM = 30, 9


def judged(phases: Phases, **given: object) -> Verdict:
    tables = phase_tables(PP2_DP8_TP2, STEPS, phases, device="cpu", **given)  # type: ignore[arg-type]
    return detect(tables, attempt=0)


def stretched(ms: float, ranks: set[int], backward: float) -> Phases:
    """`ms` more wall time of compute without CPU time, so much of it in backwards."""

    def phases(rank: int, step: int) -> dict[str, float]:
        hit = step >= FROM and rank in ranks
        cells = {"cpu_ms": 140.0, "forward_idle_ms": 4.0, "backward_idle_ms": 6.0}
        if step >= FROM:
            cells |= {"step_ms": 200 + ms, "covered_ms": 195 + ms, "compute_ms": 150.0}
            cells["comm_ms"] = 40.0 if hit else 40.0 + ms
        if hit:
            cells["compute_ms"] += ms
            cells["forward_idle_ms"] += ms * (1 - backward)
            cells["backward_idle_ms"] += ms * backward
        return cells

    return phases


@pytest.mark.parametrize("ms", [120.0, 30.0])
@pytest.mark.parametrize(("backward", "kind"), [(0.0, "launch_skew"), (0.66, "host_contention")])
def test_where_it_stands_still_decides_the_kind(ms: float, backward: float, kind: str) -> None:
    (finding,) = judged(stretched(ms, {5}, backward)).findings
    assert (finding.kind, [place.rank for place in finding.culprits]) == (kind, [5])
    assert finding.first_step == FROM
    assert f"since step {FROM}" in finding.text


def test_a_whole_host_is_one_finding() -> None:
    (finding,) = judged(stretched(80.0, set(range(8)), 0.66)).findings
    assert (finding.kind, finding.hosts) == ("host_contention", ("node0",))
    assert [place.rank for place in finding.culprits] == list(range(8))
    loses = finding.evidence[0].sentence
    assert (
        "standing still in compute without CPU time, more than the median of their peers" in loses
    )


def test_a_rank_that_computes_longer_is_no_launch_skew() -> None:
    def phases(rank: int, step: int) -> dict[str, float]:
        cells = stretched(60.0, {5}, 0.66)(rank, step)
        return {**cells, "cpu_ms": 185.0} if rank == 5 and step >= FROM else cells

    assert judged(phases).findings == ()


@pytest.mark.parametrize("seed", range(5))
def test_a_healthy_job(seed: int) -> None:
    verdict = judged(
        lambda rank, step: {"cpu_ms": 130.0 + (rank + 3 * step) % 8}, seed=seed, noise=0.03
    )
    assert verdict.findings == ()
    assert verdict.checked is not None


def on_shared_cores(ms: float, seed: int) -> Phases:
    """Every rank stands still now and then, in forwards and backwards: 8 % of a step, as much as
    real ranks on a quarter of a core do. Rank 5 also does from a step on, in forwards."""
    random = np.random.default_rng(seed)
    idle_RSW = random.normal(30.0, 11.0, (PP2_DP8_TP2.world_size, STEPS, 2)).clip(0.0)

    def phases(rank: int, step: int) -> dict[str, float]:
        forward, backward = (float(idle) for idle in idle_RSW[rank, step])
        hit_ms = ms if rank == 5 and step >= FROM else 0.0
        idle_ms = forward + backward + hit_ms
        waited_ms = max(100.0 + (ms if step >= FROM else 0.0) - idle_ms, 0.0)
        return {
            "step_ms": 245.0 + (ms if step >= FROM else 0.0),
            "cpu_ms": 140.0,
            "compute_ms": 140.0 + idle_ms,
            "comm_ms": waited_ms,
            "covered_ms": 240.0,
            "forward_idle_ms": forward + hit_ms,
            "backward_idle_ms": backward,
        }

    return phases


@pytest.mark.parametrize("seed", range(5))
def test_sleeps_before_collectives_are_seen_on_shared_cores(seed: int) -> None:
    (finding,) = judged(on_shared_cores(45.0, seed)).findings
    assert (finding.kind, [place.rank for place in finding.culprits]) == ("launch_skew", [5])
    assert abs(finding.first_step - FROM) <= 1
    assert judged(on_shared_cores(0.0, seed)).findings == ()


@pytest.mark.parametrize("seed", range(5))
def test_ranks_busy_outside_of_all_phases_are_seen_on_shared_cores(seed: int) -> None:
    """Ranks 0 and 2 by 230 ms; in their compute all ranks stand still by 400 ms, some by 700."""
    random = np.random.default_rng(seed)
    stood_RS = random.gamma(6.0, 400.0 / 6.0, (PP2_DP8_TP2.world_size, STEPS))
    outside_RS = random.exponential(20.0, stood_RS.shape)
    outside_RS[[0, 2], FROM:] += 230.0
    busy_RS = 110.0 + stood_RS + outside_RS

    def phases(rank: int, step: int) -> dict[str, float]:
        step_ms = float(busy_RS[:, step].max()) + 50.0
        compute_ms = 110.0 + float(stood_RS[rank, step])
        return {
            "step_ms": step_ms,
            "cpu_ms": 110.0,
            "compute_ms": compute_ms,
            "comm_ms": step_ms - float(busy_RS[rank, step]),
            "covered_ms": step_ms - float(outside_RS[rank, step]),
        }

    findings = judged(phases).findings
    assert [place.rank for one in findings for place in one.culprits] == [0, 2]
    for finding in findings:
        assert (finding.kind, finding.confidence) == ("launch_skew", "high")
        assert abs(finding.first_step - FROM) <= 1


def test_lateness_that_moves_is_no_ranks_fault() -> None:
    def phases(rank: int, step: int) -> dict[str, float]:
        late = (step * 7) % 32 == rank
        return {"covered_ms": 135.0, "compute_ms": 90.0, "comm_ms": 0.0} if late else {}

    assert judged(phases).findings == ()


def phase_log(first: int) -> Phases:
    """Rank 7 is busy outside of its timers: the others' compute timers hold the waiting."""

    def phases(rank: int, step: int) -> dict[str, float]:
        cells = {"comm_ms": 0.004, "covered_ms": 192.0, "compute_ms": 190.0}
        if step >= first:
            cells |= {"step_ms": 420.0}
            cells |= {"compute_ms": 410.0, "covered_ms": 412.0} if rank != 7 else {}
        return cells

    return phases


def test_in_a_phase_log_the_slow_rank_computes_less() -> None:
    (finding,) = judged(phase_log(FROM), known_layout=False).findings
    assert (finding.kind, [place.rank for place in finding.culprits]) == ("slow_worker", [7])
    assert (finding.first_step, finding.confidence) == (FROM, "high")


def test_without_a_layout_what_was_always_so_may_be_its_share() -> None:
    verdict = judged(phase_log(0), known_layout=False)
    assert verdict.findings == ()
    assert "may be its share" in verdict.set_aside[0]


def test_few_ranks_are_not_judged() -> None:
    tables = phase_tables(ParallelLayout.from_sizes(dp=2), STEPS, phase_log(FROM))
    assert "Fewer than 4 ranks" in detect(tables, attempt=0).not_enough[0].missing


def test_without_cpu_time_it_says_nothing_of_it() -> None:
    """Rank 5 is late outside of its phases; the log has neither CPU time nor operations."""

    def phases(rank: int, step: int) -> dict[str, float]:
        ms = 60.0 if step >= FROM else 0.0
        return {"step_ms": 200.0 + ms, "comm_ms": 40.0 if rank == 5 else 40.0 + ms}

    (finding,) = judged(phases).findings
    assert [place.rank for place in finding.culprits] == [5]
    assert "CPU time" not in finding.cause
    assert finding.cause.endswith("takes as long as its peers', but it comes last.")
    assert "outside of its recorded phases" in finding.text
