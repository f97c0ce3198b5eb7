"""Ranks that come late in some steps only, where steps are longer for it."""

from __future__ import annotations

import numpy as np
import pytest

from diagnosis.detectors import rotating_skew
from diagnosis.detectors.late_now_and_then import detect
from diagnosis.findings import Verdict
from tests.diagnosis.work_tables import Phases, phase_tables
from trace_hooks.layout import ParallelLayout

DP8 = ParallelLayout.from_sizes(dp=8)
STEPS, FROM = 120, 60
STRUCK = np.random.default_rng(5).random(STEPS) < 0.4


def judged(phases: Phases) -> Verdict | None:
    return detect(phase_tables(DP8, STEPS, phases), attempt=0)


def strikes(*ranks: int, ms: float = 80.0, begins: int = FROM, costs: bool = True) -> Phases:
    """Late in some steps, by turns where several are; the others wait in communication."""

    def phases(rank: int, step: int) -> dict[str, float]:
        if step < begins or not STRUCK[step]:
            return {}
        longer = ms if costs else 0.0
        late = rank == ranks[step % len(ranks)]
        waits = {"data_ms": 2.0 + ms} if late else {"comm_ms": 40.0 + longer}
        return {"step_ms": 200.0 + longer, **waits}

    return phases


def named(verdict: Verdict | None) -> list[tuple[str, int]]:
    findings = verdict.findings if verdict else ()
    return sorted((f.kind, f.culprits[0].rank) for f in findings)


@pytest.mark.parametrize("ms", [60.0, 200.0])
def test_one_rank_late_in_some_steps_is_named(ms: float) -> None:
    verdict = judged(strikes(3, ms=ms))
    assert named(verdict) == [("data_loader", 3)]
    assert verdict is not None
    (finding,) = verdict.findings
    assert abs(finding.first_step - FROM) <= 3
    assert "comes late now and then" in finding.title
    assert finding.confidence == "medium"
    assert finding.cost is not None
    assert finding.cost.ms_per_step == pytest.approx(0.4 * ms, rel=0.4)


def strikes_every(gap: int, rank: int, ms: float, of_others: int = 0) -> Phases:
    """So few long steps move no level: the middle step is as short as before."""

    def phases(of: int, step: int) -> dict[str, float]:
        if step < FROM or step % gap:
            return {}
        late = of == (rank if not of_others else (step // gap) % of_others)
        waits = {"data_ms": 2.0 + ms} if late else {"comm_ms": 40.0 + ms}
        return {"step_ms": 200.0 + ms, **waits}

    return phases


@pytest.mark.parametrize(("gap", "ms"), [(5, 80.0), (10, 160.0)])
def test_a_rank_that_strikes_in_every_fifth_or_tenth_step_is_named(gap: int, ms: float) -> None:
    verdict = judged(strikes_every(gap, 3, ms))
    assert named(verdict) == [("data_loader", 3)]
    assert verdict is not None
    (finding,) = verdict.findings
    assert (finding.first_step, finding.last_step) == (FROM, STEPS - gap)
    assert finding.cost is not None
    assert finding.cost.ms_per_step == pytest.approx(16.0, rel=0.3)


def test_being_a_little_late_before_does_not_hide_what_a_rank_strikes_with_now() -> None:
    strikes_now = strikes_every(10, 3, 200.0)

    def phases(rank: int, step: int) -> dict[str, float]:
        if step >= FROM or step % 8:
            return strikes_now(rank, step)
        return {"step_ms": 208.0, **({"data_ms": 10.0} if rank == 3 else {"comm_ms": 48.0})}

    assert named(judged(phases)) == [("data_loader", 3)]


def test_strikes_that_make_steps_hardly_longer_or_move_name_nobody() -> None:
    assert named(judged(strikes_every(5, 3, 30.0))) == []
    assert named(judged(strikes_every(5, 3, 80.0, of_others=8))) == []


def test_strikes_that_are_no_longer_than_other_steps_name_nobody() -> None:
    """All steps are longer by 80 ms since then; rank 3 is last in some of them."""

    def phases(rank: int, step: int) -> dict[str, float]:
        if step < FROM:
            return {}
        late = rank == 3 and STRUCK[step]
        return {
            "step_ms": 280.0,
            **({"data_ms": 42.0, "comm_ms": 80.0} if late else {"comm_ms": 120.0}),
        }

    assert named(judged(phases)) == []


def test_two_ranks_by_turns_are_both_named() -> None:
    assert named(judged(strikes(3, 6, ms=120.0))) == [("data_loader", 3), ("data_loader", 6)]


def test_where_any_rank_may_be_late_nobody_is_named() -> None:
    assert named(judged(strikes(*range(8), ms=120.0))) == []


def test_strikes_from_the_first_step_on_are_no_news() -> None:
    assert named(judged(strikes(3, begins=0))) == []


def test_strikes_that_lengthen_no_step_name_nobody() -> None:
    assert named(judged(strikes(3, costs=False))) == []


def test_a_rank_late_in_every_step_is_left_to_the_other_detectors() -> None:
    def phases(rank: int, step: int) -> dict[str, float]:
        if step < FROM:
            return {}
        return {"step_ms": 280.0, **({"data_ms": 82.0} if rank == 3 else {"comm_ms": 120.0})}

    assert named(judged(phases)) == []


@pytest.mark.parametrize(("before", "kept"), [(3, []), (None, [("data_loader", 6)])])
def test_what_struck_another_rank_before_is_a_habit(
    before: int | None, kept: list[tuple[str, int]]
) -> None:
    now = strikes(6, ms=120.0)

    def phases(rank: int, step: int) -> dict[str, float]:
        if before is None or step >= FROM or not STRUCK[step]:
            return now(rank, step)
        waits = {"data_ms": 122.0} if rank == before else {"comm_ms": 40.0}
        return {"step_ms": 200.0, **waits}

    assert named(judged(phases)) == kept


@pytest.mark.parametrize(("length", "names"), [(15, []), (60, [("data_loader", 3)])])
def test_strikes_of_a_few_steps_are_not_what_all_steps_are_longer_for(
    length: int, names: list[tuple[str, int]]
) -> None:
    """All steps are longer since FROM, and from ten steps later on rank 3 is late in every second
    one for a while.
    """

    def phases(rank: int, step: int) -> dict[str, float]:
        if step < FROM:
            return {}
        strikes = FROM + 10 <= step < FROM + 10 + length and step % 2 == 0
        ms = 120.0 if strikes else 0.0
        own, waited = (ms, 0.0) if rank == 3 else (0.0, ms)
        waits = {"data_ms": 2.0 + own, "comm_ms": 52.0 + waited}
        return {"step_ms": 212.0 + ms, **waits}

    assert named(judged(phases)) == names


@pytest.mark.parametrize("seed", range(4))
def test_ranks_that_are_late_by_turns_are_not_named_for_being_drawn_more_often(seed: int) -> None:
    last_S = np.random.default_rng(seed).choice(4, STEPS, p=[0.14, 0.14, 0.36, 0.36])

    def phases(rank: int, step: int) -> dict[str, float]:
        if step < FROM:
            return {}
        own = 80.0 if rank == last_S[step] else 0.0
        return {"step_ms": 280.0, "covered_ms": 275.0 - own, "comm_ms": 120.0 - own}

    tables = phase_tables(ParallelLayout.from_sizes(dp=4), STEPS, phases)
    assert rotating_skew.detect(tables, attempt=0).findings
    assert named(detect(tables, attempt=0)) == []
