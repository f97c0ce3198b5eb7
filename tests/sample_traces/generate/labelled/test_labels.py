"""Labelled jobs: doses that reach their aim, places, what the data cannot show."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sample_traces.generate.faults import KINDS, SyntheticFault
from sample_traces.generate.job import SyntheticJob
from sample_traces.generate.labelled.doses import DOSES, dosed, slowdown, step_ns
from sample_traces.generate.labelled.drawn import SHAPES, draw_healthy, draw_labelled
from sample_traces.generate.labelled.drawn_trace import KINDS as TRACE_KINDS
from sample_traces.generate.labelled.drawn_trace import draw_trace
from sample_traces.generate.labelled.labels import label_of
from sample_traces.generate.straggler_trace import step_s

JOB = SyntheticJob(32, pp=4, tp=2, num_steps=24)
TIMED = [kind for kind in KINDS if KINDS[kind].dose and kind != "clock_unaligned"]


@pytest.mark.sampled(every=3)
@pytest.mark.parametrize("kind", TIMED)
@pytest.mark.parametrize("dose", DOSES)
def test_a_dose_lengthens_the_steps_it_hits_by_its_aim(kind: str, dose: str) -> None:
    where = None if KINDS[kind].target == "job" else 1
    job = SyntheticJob(64, pp=4, tp=2, num_steps=24) if kind == "many_hosts_slow" else JOB
    fault = dosed(job, SyntheticFault(kind, where, KINDS[kind].default, 8), DOSES[dose])
    reached = slowdown(job, fault, step_ns(job))
    assert DOSES[dose] <= reached <= 1 + 1.1 * (DOSES[dose] - 1)
    assert fault.first_step == 8


def test_a_dose_that_nothing_reaches_is_refused() -> None:
    alone = SyntheticJob(2, pp=1, tp=1, num_steps=4)
    with pytest.raises(ValueError, match="no dose of slow_node_link"):
        dosed(alone, SyntheticFault("slow_node_link", 0, 5.0), 1.5)


def label(text: str, job: SyntheticJob = JOB, **more: bool):
    fault = SyntheticFault.parse(text)
    return label_of(replace(job, faults=(fault,)), fault, **more)


@pytest.mark.parametrize(
    ("fault", "ranks", "stages", "hosts"),
    [
        ("slow_worker=5", (5,), (), ()),
        ("slow_stage=2", (), (2,), ()),
        ("slow_link=3", (3, 11), (), ()),  # 8 ranks a stage
        ("slow_dp_network=9", (9, 11, 13, 15), (1,), ()),
        ("host_contention=1", tuple(range(8, 16)), (), ("node0001",)),
        ("many_hosts_slow=1", tuple(range(24)), (), ("node0000", "node0001", "node0002")),
        ("gc_pauses", (), (), ()),
    ],
)
def test_places(fault: str, ranks: tuple, stages: tuple, hosts: tuple) -> None:
    planted = label(fault)
    assert (planted.ranks, planted.stages, planted.hosts) == (ranks, stages, hosts)


@pytest.mark.parametrize(
    ("where", "is_shown"),
    [(0, True), (3, False)],  # hosts 0 to 3 are stage 0, linked with 4 to 7; 3, 4, 5 on a switch
)
def test_hosts_that_others_could_be_need_no_names(where: int, is_shown: bool) -> None:
    planted = label(f"many_hosts_slow={where}", SyntheticJob(64, pp=2, tp=1, num_steps=24))
    assert planted.or_nobody is not is_shown


def test_steps_are_those_it_hits() -> None:
    planted = label("slow_checkpoint=3,from=2")
    assert (planted.first_step, planted.last_step) == (10, 20)
    assert label("dead_rank=3,from=7").first_step == 7


TWO_STAGES = SyntheticJob(16, pp=2, tp=2, num_steps=24)
FOUR_RANKS = SyntheticJob(4, pp=4, tp=1, num_steps=24)


@pytest.mark.parametrize(
    ("fault", "job", "why_not"),
    [
        ("slow_stage=1", TWO_STAGES, "two stages"),
        ("slow_stage=1,from=8", TWO_STAGES, ""),
        ("slow_stage=1,from=8", FOUR_RANKS, "its layers and its device look the same"),
        ("slow_worker=1", FOUR_RANKS, "fewer than three peers"),
        ("slow_worker=1,from=8", FOUR_RANKS, ""),
        ("comm_regression", JOB, "equally slow everywhere"),
        ("comm_regression,from=8", JOB, ""),
        ("slow_host=1", TWO_STAGES, "other hosts have the same slow transfers"),
        ("slow_host=1", JOB, ""),
    ],
)
def test_what_the_data_do_not_allow(fault: str, job: SyntheticJob, why_not: str) -> None:
    planted = label(fault, job)
    assert (why_not in planted.why_not) if why_not else planted.is_identifiable


def test_a_baseline_makes_whole_jobs_comparable() -> None:
    assert label("comm_regression", has_baseline=True).is_identifiable


def test_drawn_jobs_repeat_and_are_mostly_identifiable() -> None:
    labels = []
    for kind in KINDS:
        first, second = (draw_labelled(kind, "quiet", seed) for seed in (1, 2))
        assert first == draw_labelled(kind, "quiet", 1)
        assert first.job.seed != second.job.seed
        assert {first.labels[0].kind, second.labels[0].kind} == {kind}
        labels += [*first.labels, *second.labels]
    assert sum(not found.is_identifiable for found in labels) <= 0.1 * len(labels)


def test_shapes_cover_the_sizes_that_are_promised() -> None:
    for axis, most in ((0, 8), (1, 64), (2, 8)):
        assert {shape[axis] for shape in SHAPES} >= {1, most}


def test_healthy_jobs_have_noise_and_no_fault() -> None:
    drawn = draw_healthy(3)
    assert drawn.labels == drawn.job.faults == ()
    assert 1.0 < drawn.slowdown < 1.15


@pytest.mark.parametrize("kind", TRACE_KINDS)
def test_traces_are_dosed_from_their_onset_on(kind: str) -> None:
    for seed in (1, 2, 3):
        drawn = draw_trace(kind, "loud", seed)
        job = drawn.job
        plain = replace(job, slow=(), slow_links=(), slow_networks=(), pause_s=0.0, spread=0.0)
        ratio_S = step_s(job) / step_s(plain)
        assert ratio_S[: job.since].tolist() == [1.0] * job.since
        assert ratio_S[job.since :].mean() == pytest.approx(1.525, abs=0.06)
        assert drawn.labels[0].first_step == job.since
