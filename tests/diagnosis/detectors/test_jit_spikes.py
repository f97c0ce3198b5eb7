"""jit_spikes on hand-built tables and generated jobs: rare long steps, and what is none."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from app.analysis.diagnosis import diagnose_run
from diagnosis.detectors.jit_spikes import detect, period_of
from diagnosis.findings import Verdict
from ingest.run import open_run
from sample_traces.generate.faults import SyntheticFault
from sample_traces.generate.job import SyntheticJob
from sample_traces.generate.tables.write import generate
from tests.diagnosis.work_tables import RETRIES, Phases, phase_tables
from trace_hooks.layout import ParallelLayout

DP8 = ParallelLayout.from_sizes(dp=8)
STEPS = 40
AT = (10, 20, 30)


def spiking(ms: float, ranks: set[int], at: tuple[int, ...] = AT) -> Phases:
    """Some steps are longer by `ms`; the ranks that do not spike wait meanwhile."""

    def phases(rank: int, step: int) -> dict[str, float]:
        random = np.random.default_rng([7, rank, step])
        if step not in at:
            return {"compute_ms": 150.0 + random.normal(0, 1), "step_ms": 200 + random.normal(0, 1)}
        own = ms if rank in ranks else 0.0
        return {"step_ms": 200.0 + ms, "compute_ms": 150.0 + own, "comm_ms": 40.0 + ms - own}

    return phases


def judged(phases: Phases, num_steps: int = STEPS) -> Verdict:
    return detect(phase_tables(DP8, num_steps, phases), attempt=0)


@pytest.mark.parametrize("ms", [200.0, 60.0, 16.0])
def test_rare_long_steps_of_all_ranks(ms: float) -> None:
    (finding,) = judged(spiking(ms, set(range(8)))).findings
    assert (finding.kind, finding.culprits, finding.first_step) == ("jit_spikes", (), 10)
    assert finding.ongoing
    assert finding.evidence[0].number == pytest.approx(ms, abs=3)
    assert "10, 20, 30" in finding.evidence[0].sentence
    assert finding.cost is not None
    assert finding.cost.ms_per_step == pytest.approx(3 * ms / 30, rel=0.15)


def test_an_evaluation_of_two_steps_is_two_of_them() -> None:
    at = tuple(step for first in (10, 50, 90, 130) for step in (first, first + 1))
    (finding,) = judged(spiking(200.0, set(range(8)), at), num_steps=150).findings
    assert finding.title == "2 steps in 40 are long"
    assert "2 long steps in 40" in finding.text
    assert finding.cause.startswith("2 steps in 40 are far longer in compute")
    assert "8 of 150 steps (10, 11, 50, 51, 90, ...; 2 in 40)" in finding.evidence[0].sentence


@pytest.mark.parametrize("sizes", [{"dp": 2}, {"pp": 4}, {"pp": 4, "dp": 2}, {"pp": 2, "tp": 2}])
def test_where_stages_have_few_ranks_spikes_of_one_rank_are_not_those_of_all(
    sizes: dict[str, int],
) -> None:
    tables = phase_tables(ParallelLayout.from_sizes(**sizes), STEPS, spiking(200.0, {1}))
    (finding,) = detect(tables, attempt=0).findings
    assert [place.rank for place in finding.culprits] == [1]


def test_a_pause_of_one_rank_in_another_step_hides_no_spikes_of_all() -> None:
    def phases(rank: int, step: int) -> dict[str, float]:
        return spiking(90.0, {2}, (25,))(rank, step) if step == 25 else spikes(rank, step)

    spikes = spiking(60.0, set(range(8)))
    (finding,) = judged(phases).findings
    assert (finding.culprits, finding.first_step) == ((), 10)
    assert "what most ranks do makes no other step longer" in finding.evidence[0].sentence


def test_spikes_of_all_ranks_name_nobody_where_single_ranks_are_noisy() -> None:
    """Two of eight ranks spike by twice as much as the others."""

    def phases(rank: int, step: int) -> dict[str, float]:
        if step not in AT:
            return spiking(0.0, set())(rank, step)
        own = 120.0 if rank in (3, 6) else 60.0
        return {"step_ms": 320.0, "compute_ms": 150.0 + own, "comm_ms": 160.0 - own}

    (finding,) = judged(phases).findings
    assert finding.culprits == ()


@pytest.mark.parametrize(("is_longer", "named"), [(True, [5]), (False, [])])
def test_where_steps_vary_by_more_what_a_rank_computes_tells_its_spikes(
    is_longer: bool, named: list[int]
) -> None:
    """Ranks wait for cores by up to a whole step more, and steps are longer for it."""

    def phases(rank: int, step: int) -> dict[str, float]:
        waits = np.random.default_rng([11, step]).uniform(0, 200)
        own = 80.0 if rank == 5 and step in AT else 0.0
        return {
            "step_ms": 200.0 + waits + (80.0 if is_longer and step in AT else 0.0),
            "compute_ms": 150.0 + own + np.random.default_rng([rank, step]).normal(0, 1),
            "stretch_ms": waits,
        }

    findings = judged(phases).findings
    assert [place.rank for one in findings for place in one.culprits] == named


def test_spikes_of_one_rank_name_it() -> None:
    (finding,) = judged(spiking(80.0, {5})).findings
    assert [place.rank for place in finding.culprits] == [5]
    assert "Rare long steps on rank 5" in finding.title


@pytest.mark.parametrize("in_compute", [0.3, 0.55, 0.7])
def test_ranks_that_wait_in_their_compute_timer_do_not_spike(in_compute: float) -> None:
    """Rank 5 is late; ranks 0 to 2 log part of their waiting as compute, the rest and the others
    as communication.
    """

    def phases(rank: int, step: int) -> dict[str, float]:
        if step not in AT:
            return spiking(80.0, {5})(rank, step)
        own = 80.0 if rank == 5 else 80.0 * in_compute * (rank < 3)
        return {"step_ms": 280.0, "compute_ms": 150.0 + own, "comm_ms": 120.0 - own}

    (finding,) = judged(phases).findings
    assert [place.rank for place in finding.culprits] == [5]


def test_steps_in_which_an_allocator_retries_are_no_spikes() -> None:
    """The other ranks may wait for it inside their compute."""
    tables = phase_tables(DP8, STEPS, spiking(80.0, set(range(8))))
    rows = [{"rank": 5, "step": step, "num_retries": 1} for step in AT]
    retries = pa.Table.from_pylist(rows, RETRIES)
    assert detect({**tables, "allocator_retries": retries}, attempt=0).findings == ()


def test_spikes_that_ended_long_ago_are_past() -> None:
    (finding,) = judged(spiking(80.0, set(range(8)), (5, 9, 13)), 60).findings
    assert (finding.severity, finding.last_step) == ("past", 13)


def test_two_of_equal_length_are_enough_and_two_of_other_lengths_are_chance() -> None:
    assert judged(spiking(80.0, set(range(8)), (10, 20))).findings

    def unlike(rank: int, step: int) -> dict[str, float]:
        ms = {10: 40.0, 20: 90.0}.get(step, 0.0)
        return {"step_ms": 200.0 + ms, "compute_ms": 150.0 + ms}

    assert judged(unlike).findings == ()


def test_long_steps_of_all_ranks_that_cost_little_are_set_aside_unless_they_come_regularly() -> (
    None
):
    verdict = judged(spiking(80.0, set(range(8)), (10, 47, 91)), num_steps=200)
    assert verdict.findings == ()
    (little,) = verdict.set_aside
    assert little.startswith("3 steps (10, 47, 91) are far longer than the others; together they ")
    assert little.endswith("cost 0.6 % of the time.")
    assert judged(spiking(80.0, set(range(8)), (10, 60, 110)), num_steps=200).findings
    assert judged(spiking(80.0, {3}, (10, 47, 91)), num_steps=200).findings  # somebody to look at


def test_spikes_on_another_rank_each_time_are_set_aside() -> None:
    who = {10: 1, 20: 5, 30: 6}

    def phases(rank: int, step: int) -> dict[str, float]:
        ms = 90.0 if step in who else 0.0
        own = ms if who.get(step) == rank else 0.0
        return {"step_ms": 200.0 + ms, "compute_ms": 150.0 + own, "comm_ms": 40.0 + ms - own}

    verdict = judged(phases)
    assert verdict.findings == ()
    assert "another rank each time" in verdict.set_aside[0]


@pytest.mark.parametrize(
    ("ms_of_2", "ms_of_5", "named"),
    [
        (45, (90, 90, 80, 95, 90), [2, 5]),
        (45, (60, 110, 75, 50, 120), [2]),
        (35, (90, 90, 80, 95, 90), [5]),  # 4 % of the time, as ranks of busy hosts stall
    ],
)
def test_a_rank_with_similar_spikes_in_a_row_is_named_before_and_after_others(
    ms_of_2: int, ms_of_5: tuple[int, ...], named: list[int]
) -> None:
    """Rank 2 in four steps, then others in one each, then rank 5 in five."""
    own_ms = {(2, step): ms_of_2 for step in (10, 16, 21, 25)} | {(1, 40): 75, (6, 47): 75}
    own_ms |= {(5, step): ms for step, ms in zip((60, 66, 69, 77, 84), ms_of_5, strict=True)}

    def phases(rank: int, step: int) -> dict[str, float]:
        ms = sum(ms for (_, at), ms in own_ms.items() if at == step)
        own = own_ms.get((rank, step), 0)
        return {"step_ms": 200.0 + ms, "compute_ms": 150.0 + own, "comm_ms": 40.0 + ms - own}

    findings = judged(phases, 100).findings
    assert [place.rank for one in findings for place in one.culprits] == named
    if named[0] == 2:
        assert (findings[0].first_step, findings[0].last_step) == (10, 25)
        told = findings[0].evidence[0].sentence
        assert "4 of 100 steps (10, 16, 21, 25) take 45 ms longer" in told
        assert findings[0].severity == "past"


def test_a_rank_that_computes_longer_is_named_where_the_others_wait_in_their_backwards() -> None:
    """DDP reduces while backwards run: waiting stands there, without CPU time."""

    def phases(rank: int, step: int) -> dict[str, float]:
        ms = 360.0 if step in AT else 0.0
        own = ms if rank == 1 else 0.0
        return {"step_ms": 200.0 + ms, "cpu_ms": 140.0 + own, "compute_ms": 150.0 + ms}

    tables = phase_tables(ParallelLayout.from_sizes(dp=4), STEPS, phases, device="cpu")
    (finding,) = detect(tables, attempt=0).findings
    assert [place.rank for place in finding.culprits] == [1]


def test_spikes_of_all_ranks_and_later_ones_of_one_rank_are_two_findings() -> None:
    """All ranks unevenly in some steps; rank 3 later, with a little of rank 6 in between."""
    of_all, of_one = (10, 20, 29, 41, 50), (120, 127, 135, 140, 149)

    def own_ms(rank: int, step: int) -> float:
        if step in of_all:
            return float(np.random.default_rng([rank, step]).uniform(50, 120))
        if step in of_one:
            return 180.0 if rank == 3 else 0.0
        return 30.0 if (rank, step) == (6, 128) else 0.0

    def phases(rank: int, step: int) -> dict[str, float]:
        ms = max(own_ms(other, step) for other in range(8))
        own = own_ms(rank, step)
        return {"step_ms": 200.0 + ms, "compute_ms": 150.0 + own, "comm_ms": 40.0 + ms - own}

    all_ranks, rank_3 = judged(phases, 160).findings
    assert (all_ranks.culprits, all_ranks.first_step, all_ranks.last_step) == ((), 10, 50)
    assert [place.rank for place in rank_3.culprits] == [3]
    assert (rank_3.first_step, rank_3.last_step) == (120, 159)


@pytest.mark.parametrize("phase", ["data_ms", "gc_ms", "checkpoint_ms", "comm_ms"])
def test_long_steps_that_have_a_kind_of_their_own(phase: str) -> None:
    longer = {"step_ms": 290.0, "compute_ms": 150.0, phase: 100.0 if phase != "comm_ms" else 130.0}
    assert judged(lambda r, s: longer if s in AT else {}).findings == ()


@pytest.mark.parametrize("phase", ["data_ms", "gc_ms", "checkpoint_ms"])
def test_ranks_that_wait_in_the_next_step_do_not_spike(phase: str) -> None:
    """Rank 5 saves after its last collective, when the others have begun the next step."""

    def phases(rank: int, step: int) -> dict[str, float]:
        if step in AT and rank == 5:
            return {"step_ms": 290.0, "compute_ms": 150.0, phase: 100.0}
        waits = step - 1 in AT and rank != 5
        return {"step_ms": 290.0, "compute_ms": 245.0} if waits else {}

    assert judged(phases).findings == ()


def test_the_tail_of_a_noisy_job_is_no_spike() -> None:
    random = np.random.default_rng(3)
    longer_S = 200.0 * np.exp(random.normal(0, 0.15, 400))

    def phases(rank: int, step: int) -> dict[str, float]:
        return {"step_ms": longer_S[step], "compute_ms": longer_S[step] - 50.0}

    assert judged(phases, 400).findings == ()


def test_compiling_in_the_first_steps_is_no_spike() -> None:
    assert judged(spiking(900.0, set(range(8)), (0, 1))).findings == ()


def test_a_warm_up_of_many_steps_is_no_spike() -> None:
    def phases(rank: int, step: int) -> dict[str, float]:
        longer = 400.0 * 0.6**step + (90.0 if step in (20, 33) else 0.0)
        return {"step_ms": 200.0 + longer, "compute_ms": 150.0 + longer}

    (finding,) = judged(phases).findings
    assert finding.evidence[0].sentence.startswith("2 of 40 steps (20, 33)")


@pytest.mark.parametrize(
    ("at", "first"),
    [
        ((35, 145, 155, 163), 145),
        ((35, 145, 155), 35),  # too few are left without the first one
        ((35, 95, 120, 155), 35),
    ],
)
def test_a_lone_long_step_far_before_the_others_is_not_the_first_of_them(
    at: tuple[int, ...], first: int
) -> None:
    (finding,) = judged(spiking(200.0, {3}, at), num_steps=170).findings
    assert finding.first_step == first


@pytest.mark.parametrize(
    ("late", "first"), [((14, 20, 33), 14), ((10, 20, 30), 0), ((21, 31, 39), 21)]
)
def test_the_first_step_belongs_to_long_ones_that_come_in_its_rhythm(
    late: tuple[int, ...], first: int
) -> None:
    (finding,) = judged(spiking(80.0, set(range(8)), (0, *late))).findings
    assert finding.first_step == first


@pytest.mark.parametrize(
    ("ms", "at", "is_told"),
    [(40.0, (10, 17, 33), False), (80.0, (10, 17, 33), True), (40.0, AT, True)],
)
def test_where_ranks_wait_in_their_timers_a_pause_of_one_rank_looks_like_all(
    ms: float, at: tuple[int, ...], is_told: bool
) -> None:
    """Rank 3 pauses outside of its timers, the others wait in compute; in other steps others do."""

    def phases(rank: int, step: int) -> dict[str, float]:
        longer = ms if step in at else 14.0
        late = rank == (3 if step in at else step % 8)
        own = 0.0 if late else longer
        return {"step_ms": 200.0 + longer, "compute_ms": 150.0 + own}

    verdict = judged(phases)
    assert bool(verdict.findings) == is_told


def test_long_steps_side_by_side_may_be_the_begin_of_something() -> None:
    for at in ((20, 21, 22), (38, 39)):
        assert judged(spiking(60.0, {3}, at=at)).findings == ()


def test_a_slow_rank_is_no_spike() -> None:
    assert judged(spiking(80.0, {5}, tuple(range(12, 25)))).findings == ()


def diagnosed(folder: Path, *faults: str, seed: int) -> list[str]:
    planted = tuple(map(SyntheticFault.parse, faults))
    job = SyntheticJob(16, pp=2, tp=2, num_steps=31, level="steps", seed=seed, faults=planted)
    generate(job, folder)
    with open_run(folder) as run:
        return [finding.kind for finding in diagnose_run(run).findings]


@pytest.mark.sampled
@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("ms", [150, 60, 25])
def test_generated_jobs(tmp_path: Path, ms: int, seed: int) -> None:
    assert diagnosed(tmp_path / "spiky", f"jit_spikes,ms={ms},from=5", seed=seed) == ["jit_spikes"]
    assert diagnosed(tmp_path / "healthy", seed=seed) == []


@pytest.mark.parametrize(
    ("steps", "period"),
    [
        ([100, 200, 300, 400], 100),
        ([100, 200, 285, 300, 400], 100),
        ([50, 100, 200, 250], 50),
        ([10, 47, 90, 200], None),
        ([100, 200], None),
        ([20, 21, 22], None),
        ([98, 197, 208], None),
        ([3, 4, 37, 150, 208], None),
        ([10, 11, 30, 31, 50, 51, 70, 71], 20),  # two side by side in twenty
        ([10, 11, 12, 13, 14, 15], None),
    ],
)
def test_the_period_of_regular_steps(steps: list[int], period: int | None) -> None:
    assert period_of(np.array(steps)) == period
