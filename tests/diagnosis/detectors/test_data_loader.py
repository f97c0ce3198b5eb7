"""data_loader on hand-built tables: one rank's loader, the whole job's, and their healthy twins."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from diagnosis.detectors.data_loader import detect
from diagnosis.findings import Verdict
from tests.diagnosis.work_tables import Phases, phase_tables
from trace_hooks.layout import ParallelLayout

PP2_DP4_TP2 = ParallelLayout.from_sizes(pp=2, dp=4, tp=2)
STEPS, FROM, LAST = 40, 10, 29


def judged(phases: Phases, seed: int = 1, layout: ParallelLayout = PP2_DP4_TP2) -> Verdict:
    return detect(phase_tables(layout, STEPS, phases, seed=seed), attempt=0)


def slow_loader(ms: float, rank: int | None, last: int = STEPS) -> Phases:
    """Blocked for `ms` more; the others meet it in communication."""

    def phases(who: int, step: int) -> dict[str, float]:
        if not FROM <= step <= last:
            return {}
        blocked = who == rank or rank is None
        longer = {"step_ms": 200 + ms, "covered_ms": 195 + ms}
        return {**longer, "data_ms": 2 + ms} if blocked else {**longer, "comm_ms": 40 + ms}

    return phases


@pytest.mark.parametrize("ms", [100.0, 30.0, 16.0])
def test_the_rank_whose_loader_is_slow(ms: float) -> None:
    (finding,) = judged(slow_loader(ms, 5, LAST)).findings
    assert (finding.kind, [p.rank for p in finding.culprits]) == ("data_loader", [5])
    assert (finding.first_step, finding.last_step, finding.severity) == (FROM, LAST, "past")
    assert finding.title == "Rank 5 waited for its data"
    assert finding.cost is not None
    assert finding.cost.ms_per_step == pytest.approx(ms, abs=5)
    assert 5 not in finding.victims
    assert finding.text.startswith(
        f"Rank 5 lost time waiting for the next batch from step {FROM} to {LAST}"
    )
    assert "next batch, more than the median of its peers, in steps" in finding.evidence[0].sentence


@pytest.mark.parametrize("ms", [100.0, 30.0])
def test_a_slow_loader_of_the_whole_job_names_no_rank(ms: float) -> None:
    (finding,) = judged(slow_loader(ms, None)).findings
    assert (finding.culprits, finding.first_step, finding.ongoing) == ((), FROM, True)


def test_a_step_that_no_rank_with_a_loader_has_finished() -> None:
    """The others have, as where a job gets stuck."""
    slow = slow_loader(30.0, None)
    layout = ParallelLayout.from_sizes(dp=8)
    answers = phase_tables(layout, STEPS, lambda who, step: slow(who, step) | loads(who))
    cells = answers["rank_phases"]
    unfinished = pc.and_(pc.less(cells["rank"], 4), pc.equal(cells["step"], STEPS - 1))
    answers["rank_phases"] = cells.filter(pc.invert(unfinished))
    (finding,) = detect(answers, attempt=0).findings
    assert (finding.culprits, finding.first_step) == ((), FROM)


def loads(who: int) -> dict[str, float]:
    return {} if who < 4 else {"data_ms": 0.0}


@pytest.mark.parametrize(("noise", "is_told"), [(0.002, True), (0.05, False)])
def test_a_wait_of_four_percent_is_told_beyond_what_steps_swing_by(
    noise: float, is_told: bool
) -> None:
    swing_S = np.exp(np.random.default_rng(7).normal(0.0, noise, STEPS))

    def phases(rank: int, step: int) -> dict[str, float]:
        ms = 8.0 if step >= FROM else 0.0
        step_ms = 200 * float(swing_S[step]) + ms
        return {"step_ms": step_ms, "covered_ms": step_ms - 5, "data_ms": 2 + ms}

    assert bool(judged(phases).findings) == is_told


@pytest.mark.parametrize(("waits_in", "is_told"), [("comm_ms", True), ("compute_ms", False)])
def test_waits_for_data_that_have_always_been_so(waits_in: str, is_told: bool) -> None:
    """A third of each step; ranks wait longer by turns, the others meanwhile in communication or in
    the timer of compute.
    """
    late_RS = np.random.default_rng(1).exponential(12.0, (PP2_DP4_TP2.world_size, STEPS))

    def phases(rank: int, step: int) -> dict[str, float]:
        late, last = float(late_RS[rank, step]), float(late_RS[:, step].max())
        cells = {
            "step_ms": 260.0 + last,
            "data_ms": 85.0 + late,
            "compute_ms": 150.0,
            "comm_ms": 20.0,
        }
        cells[waits_in] += last - late
        return {**cells, "covered_ms": 255.0 + last}

    verdict = judged(phases)
    of_job = [finding for finding in verdict.findings if not finding.culprits]
    assert bool(of_job) == is_told
    assert any("from the first steps on" in text for text in verdict.set_aside) != is_told


def in_turn(ms: float, lengthens: bool) -> Phases:
    """In each step another rank is blocked, every fourth step none."""

    def phases(who: int, step: int) -> dict[str, float]:
        if step < FROM or step % 4 == 0:
            return {}
        longer = {"step_ms": 200 + ms, "covered_ms": 195 + ms} if lengthens else {}
        if who == (step * 7) % 16:
            return {**longer, "data_ms": 2 + ms, **({} if lengthens else {"comm_ms": 40 - ms})}
        return {**longer, "comm_ms": 40 + ms} if lengthens else {}

    return phases


def test_ranks_that_are_blocked_in_turn_name_no_rank() -> None:
    (finding,) = judged(in_turn(120.0, lengthens=True)).findings
    assert (finding.kind, finding.culprits, finding.ongoing) == ("data_loader", (), True)
    assert abs(finding.first_step - FROM) <= 4


def test_ranks_that_are_blocked_in_turn_while_they_would_wait_anyway() -> None:
    assert judged(in_turn(39.0, lengthens=False)).findings == ()


@pytest.mark.parametrize("seed", range(5))
def test_a_healthy_job_waits_for_no_data(seed: int) -> None:
    verdict = judged(lambda rank, step: {"data_ms": 1.0 + (rank * 7 + step) % 3}, seed)
    assert verdict.findings == ()
    assert verdict.checked is not None


@pytest.mark.parametrize("seed", range(5))
def test_ranks_that_are_kept_from_their_cores_do_not_hide_it(seed: int) -> None:
    """All come late now and then, by more than the loader takes."""
    random = np.random.default_rng(seed)
    kept_RS = np.abs(random.normal(0.0, 25.0, (PP2_DP4_TP2.world_size, STEPS)))

    def phases(rank: int, step: int) -> dict[str, float]:
        cells = {"step_ms": 260.0, "covered_ms": 255.0, "data_ms": 2.0}
        blocked_ms = 20.0 if rank == 5 and step >= FROM else 0.0
        kept_ms = float(kept_RS[rank, step])
        cells |= {"data_ms": 2.0 + blocked_ms, "compute_ms": 150.0 + kept_ms}
        return {**cells, "comm_ms": max(100.0 - kept_ms - blocked_ms, 0.0)}

    (finding,) = judged(phases).findings
    assert (finding.kind, [place.rank for place in finding.culprits]) == ("data_loader", [5])
    assert abs(finding.first_step - FROM) <= 1


@pytest.mark.parametrize(("more", "num_findings"), [(30.0, 1), (50.0, 0)])
def test_a_rank_that_comes_late_by_more_else_is_not_said_to_load_as_its_peers_do(
    more: float, num_findings: int
) -> None:
    """It waits 40 ms longer for its data, and computes longer by so much."""

    def phases(rank: int, step: int) -> dict[str, float]:
        if not FROM <= step <= LAST:
            return {}
        longer = {"step_ms": 240.0 + more, "covered_ms": 235.0 + more}
        if rank == 5:
            return {**longer, "data_ms": 42.0, "compute_ms": 150.0 + more}
        return {**longer, "comm_ms": 80.0 + more}

    verdict = judged(phases)
    assert len(verdict.findings) == num_findings
    assert str(verdict.checked).startswith("No other rank waited for data longer")
    sentences = [text for text in verdict.set_aside if text.startswith("Rank 5 loses 40 ms")]
    assert len(sentences) == 1 - num_findings


def test_data_that_nobody_waits_for_is_no_fault() -> None:
    """Blocked longer, but with so much less to compute that it comes as early as the others: steps
    are as long as before.
    """

    def phases(rank: int, step: int) -> dict[str, float]:
        return {"data_ms": 42.0, "compute_ms": 110.0} if rank == 5 and step >= FROM else {}

    assert judged(phases).findings == ()


def test_what_a_fault_stirs_up_is_set_aside() -> None:
    def phases(rank: int, step: int) -> dict[str, float]:
        if rank == 2 and 2 <= step < 7:
            return {"data_ms": 18.0, "comm_ms": 24.0}
        return slow_loader(150.0, 5, LAST)(rank, step)

    verdict = judged(phases)
    assert [f.culprits[0].rank for f in verdict.findings] == [5]
    assert verdict.set_aside[0].startswith("Rank 2 came late by")


def test_what_was_not_recorded_is_stated() -> None:
    assert "No wait for data" in judged(lambda r, s: {"data_ms": 0.0}).not_enough[0].missing
    few = detect(phase_tables(PP2_DP4_TP2, 3, lambda r, s: {}), attempt=0)
    assert few.checked is None
    assert "3 finished steps are too few" in few.not_enough[0].missing


def with_workers(tables: dict[str, pa.Table], rank: int, slow: int | None) -> dict[str, pa.Table]:
    """Four workers a rank, one of which is slow."""
    rows = [
        {"rank": who, "worker": worker, "source": "Text", "fetches": 10, "samples": 80}
        | {"sample_ms": 30.0 if (who, worker) == (rank, slow) else 2.0, "sample_p99_ms": 40.0}
        | {"fetch_ms": 16.0, "cpu_ratio": 0.1, "transform_ratio": 0.0, "transform": ""}
        | {"read_mb": None}
        for who in range(PP2_DP4_TP2.world_size)
        for worker in range(4)
    ]
    return {**tables, "loader_work": pa.Table.from_pylist(rows)}


def test_one_slow_worker_makes_its_rank_wait_in_one_step_of_four() -> None:
    def phases(rank: int, step: int) -> dict[str, float]:
        if step < FROM or step % 4:
            return {}
        longer = {"step_ms": 300.0, "covered_ms": 295.0}
        return {**longer, "data_ms": 102.0} if rank == 5 else {**longer, "comm_ms": 140.0}

    tables = phase_tables(PP2_DP4_TP2, STEPS, phases, seed=1)
    (finding,) = detect(with_workers(tables, 5, slow=2), attempt=0).findings
    assert (finding.kind, [p.rank for p in finding.culprits]) == ("data_loader", [5])
    assert abs(finding.first_step - FROM) <= 3
    assert "Worker 2 takes 30.0 ms for a sample" in finding.cause
    assert "storage" in finding.next_step
    healthy = phase_tables(PP2_DP4_TP2, STEPS, lambda rank, step: {}, seed=1)
    assert detect(with_workers(healthy, 5, slow=2), attempt=0).findings == ()
