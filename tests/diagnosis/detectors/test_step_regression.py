"""step_regression and what it leaves to others: all ranks against their own past."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from diagnosis.detectors.step_regression import detect
from diagnosis.findings import Verdict
from tests.diagnosis.work_tables import NO_OPS, Phases, phase_tables, tables
from trace_hooks.layout import ParallelLayout

DP8 = ParallelLayout.from_sizes(dp=8)
STEPS, FROM = 50, 20
NO_WORK = pa.table(
    {
        name: pa.array([], pa.float64())
        for name in (
            "rank",
            "step",
            "chunk",
            "microbatch",
            "forward_ms",
            "backward_ms",
            "forward_cpu_ms",
            "backward_cpu_ms",
            "tokens",
            "sum_sq_len",
        )
    }
)


def longer(ms: float, ranks: range = range(8), last: int = STEPS) -> Phases:
    def phases(rank: int, step: int) -> dict[str, float]:
        noise = float(np.random.default_rng([3, rank, step]).normal(0, 1.0))
        risen = FROM <= step <= last
        own = 150.0 + noise + (ms if risen and rank in ranks else 0.0)
        step_ms = 200.0 + (ms if risen else 0.0)
        return {"compute_ms": own, "step_ms": step_ms, "comm_ms": step_ms - own - 10.0}

    return phases


def judged(
    phases: Phases,
    layout: ParallelLayout = DP8,
    work: pa.Table = NO_WORK,
    forward_ms: float | None = None,
    num_steps: int = STEPS,
    device: str = "cuda:0",
) -> Verdict:
    """`forward_ms`: of all ranks but rank 3, whose forwards take twice as long from FROM on; no
    waiting is recorded.
    """
    answers = phase_tables(layout, num_steps, phases, device=device)

    def of_rank(rank: int, step: int) -> float:
        return (forward_ms or 0.0) * (2 if rank == 3 and step >= FROM else 1)

    of_work = tables(
        layout,
        num_steps,
        lambda rank, step: 150.0,
        caused_ms=lambda rank, step: 0.0,
        wait_ms=0.0,
        forward_ms=None if forward_ms is None else of_rank,
    )
    answers |= {"op_times": NO_OPS, "microbatch_work": work, "rank_work": of_work["rank_work"]}
    return detect(answers, attempt=0)


@pytest.mark.parametrize(("num_steps", "num_found"), [(FROM, 0), (FROM + 6, 1), (FROM + 20, 1)])
def test_twice_the_cpu_time_counts_where_ranks_wait_for_cores(
    num_steps: int, num_found: int
) -> None:
    """All ranks stand still for most of their compute, by a third more or less."""

    def phases(rank: int, step: int) -> dict[str, float]:
        random, more = np.random.default_rng([rank, step]), 1.65 if step >= FROM else 1.0
        cpu_ms = 120.0 * random.normal(1, 0.05) * (2 if step >= FROM else 1)
        still_ms = 400.0 * more * random.uniform(0.7, 1.3)
        step_ms = 1000.0 * more * np.random.default_rng(step).normal(1, 0.1)
        return {"cpu_ms": cpu_ms, "compute_ms": cpu_ms + still_ms, "step_ms": step_ms}

    verdict = judged(phases, num_steps=num_steps, device="cpu")
    assert [(f.kind, f.culprits, f.first_step) for f in verdict.findings] == [
        ("step_regression", (), FROM)
    ] * num_found
    assert bool(verdict.not_enough) != bool(num_found)


@pytest.mark.parametrize("ms", [75.0, 30.0, 14.0])
def test_all_ranks_compute_longer(ms: float) -> None:
    (finding,) = judged(longer(ms)).findings
    assert (finding.kind, finding.culprits, finding.severity != "past") == (
        "step_regression",
        (),
        True,
    )
    assert abs(finding.first_step - FROM) <= 1
    assert finding.slowdown == pytest.approx(1 + ms / 150, abs=0.03)
    assert finding.cost is not None
    assert finding.cost.ms_per_step == pytest.approx(ms, rel=0.2)


def test_a_rise_that_went_again_is_past() -> None:
    (finding,) = judged(longer(50.0, last=34)).findings
    assert (finding.severity, finding.last_step) == ("past", 34)


@pytest.mark.parametrize("late_from", [FROM, FROM - 10])
def test_where_ranks_come_late_since_then_timers_of_compute_may_hold_the_waiting(
    late_from: int,
) -> None:
    """Rank 3 waits for data and rank 5 computes longer; the others log 60 % of their waiting as
    compute. If the two have been late for long, they are not why all compute longer now.
    """

    def phases(rank: int, step: int) -> dict[str, float]:
        noise = float(np.random.default_rng([3, rank, step]).normal(0, 1.0))
        late_ms = 80.0 * (step >= late_from)
        more_ms = 48.0 * (step >= FROM and late_from != FROM)
        data_ms = 2.0 + late_ms * (rank == 3)
        own = {3: 0.0, 5: late_ms}.get(rank, 0.6 * late_ms)
        compute_ms, step_ms = 150.0 + noise + own + more_ms, 200.0 + late_ms + more_ms
        comm_ms = step_ms - compute_ms - data_ms - 5.0
        return {
            "compute_ms": compute_ms, "data_ms": data_ms, "step_ms": step_ms, "comm_ms": comm_ms
        }  # fmt: skip

    verdict = judged(phases, ParallelLayout.from_sizes(dp=16))
    assert bool(verdict.findings) == (late_from != FROM)
    assert any("hold waiting" in why for why in verdict.set_aside) == (late_from == FROM)


def test_some_slow_ranks_are_no_slow_job() -> None:
    assert judged(longer(75.0, range(6))).findings == ()


def test_waiting_and_data_are_no_compute() -> None:
    def phases(rank: int, step: int) -> dict[str, float]:
        more = 0.0 if step < FROM else 100.0
        return {"comm_ms": 40.0 + more, "compute_ms": 150.0, "step_ms": 200.0 + more}

    assert judged(phases).findings == ()


def test_warming_up_is_no_level() -> None:
    """The first steps are quick or slow in any job."""
    for first_ms in (80.0, 400.0):
        verdict = judged(lambda r, s, ms=first_ms: {"compute_ms": ms if s < 4 else 150.0})  # type: ignore[misc]
        assert verdict.findings == ()
        assert verdict.checked is not None


@pytest.mark.parametrize("seed", range(10))
def test_healthy_jobs(seed: int) -> None:
    tables = phase_tables(DP8, STEPS, lambda r, s: {}, seed=seed, noise=0.03)
    verdict = detect({**tables, "op_times": NO_OPS}, attempt=0)
    assert verdict.findings == ()
    assert verdict.checked is not None


def test_a_log_without_communication_is_not_enough() -> None:
    def phases(rank: int, step: int) -> dict[str, float]:
        return {"compute_ms": 150.0 if step < FROM else 190.0, "comm_ms": 0.0}

    assert "no communication" in judged(phases).not_enough[0].missing


def uneven_work(since: int) -> pa.Table:
    """Four micro-batches of each rank and step: even work, then drawn again for each."""
    random = np.random.default_rng(5)
    rows = []
    for rank in range(8):
        for step in range(STEPS):
            for microbatch in range(4):
                ms = 10.0 * float(np.exp(random.normal(0, 0.4 if step >= since else 0.003)))
                rows.append(
                    {
                        "rank": rank,
                        "step": step,
                        "chunk": 0,
                        "microbatch": microbatch,
                        "forward_ms": ms,
                        "backward_ms": 2 * ms,
                    }
                )
    return pa.Table.from_pylist(rows, NO_WORK.schema)


@pytest.mark.parametrize(("since", "is_finding"), [(FROM - 2, False), (0, True), (STEPS, True)])
def test_a_rise_with_uneven_work_since_then_is_more_work(since: int, is_finding: bool) -> None:
    verdict = judged(longer(30.0), work=uneven_work(since))
    assert (len(verdict.findings), len(verdict.set_aside)) == (is_finding, not is_finding)
    if not is_finding:
        assert "more of it" in verdict.set_aside[0]


def test_a_rise_that_forwards_do_not_have_is_waiting_for_another_rank() -> None:
    verdict = judged(longer(30.0), forward_ms=50.0)
    assert verdict.findings == ()
    assert "it holds waiting for others" in verdict.set_aside[0]


@pytest.mark.parametrize("comm_ms", [0.5, 3.0, 45.0])
def test_where_compute_may_hold_waiting_it_does_not_deny_that_a_rank_is_the_reason(
    comm_ms: float,
) -> None:
    """All timers of compute end with the last rank's, and nothing else differs between ranks: how
    long communication takes says nothing of where they wait.
    """

    def phases(rank: int, step: int) -> dict[str, float]:
        more = 30.0 if step >= FROM else 0.0
        return {"compute_ms": 150.0 + more, "step_ms": 200.0 + more, "comm_ms": comm_ms}

    (finding,) = judged(phases).findings
    assert finding.title == "Compute takes longer on all ranks than before"
    assert "no rank" not in finding.cause
    assert "inside the timer of compute does not show" in finding.cause


def test_where_communication_takes_the_waiting_no_rank_is_the_reason() -> None:
    def phases(rank: int, step: int) -> dict[str, float]:
        own = float(np.random.default_rng([rank, step]).normal(150.0, 8.0))
        own += 40.0 if step >= FROM else 0.0
        return {"compute_ms": own, "step_ms": 260.0, "comm_ms": 250.0 - own} | (
            {} if step < FROM else {"step_ms": 300.0, "comm_ms": 290.0 - own}
        )

    (finding,) = judged(phases).findings
    assert finding.title == "The whole job computes longer than before"
    assert finding.cause.endswith("so no rank and no link is the reason.")


def test_it_does_not_deny_a_rise_of_compute_that_makes_no_step_longer() -> None:
    def phases(rank: int, step: int) -> dict[str, float]:
        more = 20.0 if step >= FROM else 0.0
        return {"compute_ms": 150.0 + more, "comm_ms": 40.0 - more}

    verdict = judged(phases)
    assert verdict.findings == ()
    assert "did not rise" not in (verdict.checked or "")


def test_the_median_rank_is_the_median_rank() -> None:
    """A quarter of the ranks computes longer by 20 %, the others by 40 %."""

    def phases(rank: int, step: int) -> dict[str, float]:
        more = (30.0 if rank < 2 else 60.0) if step >= FROM else 0.0
        return {"compute_ms": 150.0 + more, "step_ms": 200.0 + more}

    (finding,) = judged(phases).findings
    assert "at least 1.20x as long as before step 20" in finding.evidence[0].sentence
    assert "the median rank 210 ms per step after 150 ms" in finding.evidence[0].sentence


def test_where_a_rank_is_late_meanwhile_it_may_be_the_reason() -> None:
    """The others wait for rank 3, by 28 of 40 ms inside their timer of compute."""

    def phases(rank: int, step: int) -> dict[str, float]:
        late = 40.0 if step >= FROM else 0.0
        own = late if rank == 3 else 0.7 * late
        return {"compute_ms": 150.0 + own, "step_ms": 200.0 + late, "comm_ms": 40.0 + late - own}

    (finding,) = judged(phases).findings
    assert "no rank" not in finding.cause
    assert "waiting for rank 3, late meanwhile" in finding.cause
