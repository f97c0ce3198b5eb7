"""slow_worker on hand-built tables: who is named, since when, on what evidence, and who not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from diagnosis.detectors.slow_worker import detect
from diagnosis.findings import Diagnosis, Verdict
from diagnosis.one_cause import merged
from tests.diagnosis.work_tables import Compute, tables
from trace_hooks.layout import ParallelLayout

STEPS = 30
SLOW_FROM = 8
PP2_DP4_TP2 = ParallelLayout.from_sizes(pp=2, dp=4, tp=2)


def slow(*ranks: int, x: float = 1.3, first: int = SLOW_FROM, last: int = STEPS) -> Compute:
    return lambda rank, step: 100.0 * (x if rank in ranks and first <= step <= last else 1.0)


def judged(
    layout: ParallelLayout = PP2_DP4_TP2,
    compute: Compute | None = None,
    steps: int = STEPS,
    **given: Any,
) -> Verdict:
    return detect(tables(layout, steps, compute or slow(5), **given), attempt=0)


def named(verdict: Verdict) -> list[tuple[int, int]]:
    return sorted((f.culprits[0].rank, f.first_step) for f in verdict.findings)


@pytest.mark.parametrize("x", [1.5, 1.15, 1.05])
def test_the_slow_rank_and_its_first_step(x: float) -> None:
    verdict = judged(compute=slow(5, x=x))
    assert named(verdict) == [(5, SLOW_FROM)]
    finding = verdict.findings[0]
    assert finding.slowdown == pytest.approx(x, abs=0.01)
    assert finding.ongoing
    assert finding.severity == ("urgent" if x >= 1.1 else "warning")
    assert f"{x:.2f}x" in finding.text
    assert f"since step {SLOW_FROM}" in finding.text


@pytest.mark.parametrize(("num_slow", "is_named"), [(20, True), (19, False)])
def test_ranks_that_are_slow_after_each_other_are_named_if_each_is_for_20_steps(
    num_slow: int, is_named: bool
) -> None:
    """Fewer steps on one rank after the other are what a busy host does by itself."""
    begins = {1: 10, 6: 50, 11: 90}

    def compute(rank: int, step: int) -> float:
        first = begins.get(rank, 1000)
        return 100.0 * (1.5 if first <= step < first + num_slow else 1.0)

    verdict = judged(compute=compute, steps=130)
    assert named(verdict) == (sorted(begins.items()) if is_named else [])


@pytest.mark.parametrize(
    ("swing", "begins"),
    [
        (1.0, [2, 40]),
        (1.4, [40]),
    ],
)
def test_where_ranks_swing_a_short_episode_beside_a_lasting_one_is_left_out(
    swing: float, begins: list[int]
) -> None:
    """Each other rank computes longer for three steps once, one after the other."""

    def compute(rank: int, step: int) -> float:
        if rank == 5:
            return 100.0 * (1.8 if 2 <= step < 10 or 40 <= step < 80 else 1.0)
        return 100.0 * (swing if (step - 11 * rank) % 100 < 3 else 1.0)

    verdict = judged(ParallelLayout.from_sizes(dp=8), compute, steps=100)
    assert named(verdict) == [(5, first) for first in begins]


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("noise", [0.003, 0.02, 0.1])
def test_a_healthy_job_has_none(seed: int, noise: float) -> None:
    verdict = judged(compute=slow(), seed=seed, noise=noise)
    assert verdict.findings == ()
    assert verdict.set_aside == ()
    assert verdict.checked == (
        "No rank was slow (by 6 % and twice its peers' noise) for 4 steps or longer, steadily and "
        "beyond what ranks swing by, in steps 0 to "
        "29; 16 ranks compared."
    )


def test_two_slow_ranks_of_one_stage_do_not_hide_each_other() -> None:
    layout = ParallelLayout.from_sizes(pp=2, dp=2, tp=2)
    assert named(judged(layout, slow(4, 7))) == [(4, SLOW_FROM), (7, SLOW_FROM)]
    assert named(judged(compute=slow(0, 2))) == [(0, SLOW_FROM), (2, SLOW_FROM)]


@pytest.mark.parametrize(
    "sizes", [{"pp": 2, "tp": 4}, {"pp": 2, "dp": 4}, {"dp": 8}, {"pp": 4, "dp": 2}, {"pp": 8}]
)
def test_without_replicas_or_tensor_peers(sizes: dict[str, int]) -> None:
    verdict = judged(ParallelLayout.from_sizes(**sizes))
    assert named(verdict) == [(5, SLOW_FROM)]
    alone = sizes in ({"pp": 4, "dp": 2}, {"pp": 8})
    assert (verdict.findings[0].confidence == "low") == alone
    unseen = sizes == {"pp": 8}  # few_replicas.py compares those of two replicas
    assert any("fewer than 3 peers" in one.missing for one in verdict.not_enough) == unseen


def test_sentences_on_one_rank_are_in_the_singular() -> None:
    (one, *_) = judged(ParallelLayout.from_sizes(dp=1)).not_enough
    assert one.missing.startswith("The only rank has fewer than 3 peers, and ")
    (all_of_them, *_) = judged(ParallelLayout.from_sizes(pp=8)).not_enough
    assert all_of_them.missing.startswith("All 8 ranks have fewer than 3 peers: ")


def test_a_change_of_the_whole_job_is_nobodys_fault() -> None:
    def compute(rank: int, step: int) -> float:
        return 100.0 * (1.5 if step >= SLOW_FROM else 1.0)

    for sizes in ({"pp": 8}, {"pp": 2, "dp": 4, "tp": 2}):
        assert judged(ParallelLayout.from_sizes(**sizes), compute).findings == ()


def test_a_whole_stage_is_not_one_worker() -> None:
    stage_1 = [rank for rank in range(16) if PP2_DP4_TP2.coords(rank)["pp"] == 1]
    assert judged(compute=slow(*stage_1)).findings == ()
    small = ParallelLayout.from_sizes(pp=4, dp=2)  # two ranks a stage: compared with their own past
    verdict = judged(small, slow(2, 3))
    assert verdict.findings == ()
    assert verdict.set_aside == (
        "All 2 ranks of pipeline stage 1 take 1.30x as long to compute as their peers "
        "since step 8: that is pipeline stage 1, not one slow worker.",
    )


def test_a_rank_without_peers_is_slower_than_it_was_itself() -> None:
    (finding,) = judged(ParallelLayout.from_sizes(pp=4), slow(2)).findings
    assert finding.cause == "Rank 2 takes longer to compute the same work than it did before."


def test_the_ranks_of_a_whole_host_are_named_and_become_one_finding_on_it() -> None:
    layout = ParallelLayout.from_sizes(pp=2, dp=8, tp=2)
    given = tables(layout, STEPS, slow(*range(4)), ranks_per_host=4)
    verdict = detect(given, attempt=0)
    assert named(verdict) == [(rank, SLOW_FROM) for rank in range(4)]
    hosts = {rank: f"node{rank // 4}" for rank in range(32)}
    (finding,) = merged(Diagnosis((verdict,)), hosts, lambda *_: 0.0).findings
    assert finding.hosts == ("node0",)
    assert [place.rank for place in finding.culprits] == [0, 1, 2, 3]


def test_hosts_of_whole_replicas_may_have_more_work() -> None:
    layout = ParallelLayout.from_sizes(dp=8, tp=4)
    verdict = judged(layout, slow(*range(8)), ranks_per_host=8)
    assert verdict.findings == ()
    assert "host node0" in verdict.set_aside[0]


def test_a_whole_replica_is_not_one_worker() -> None:
    layout = ParallelLayout.from_sizes(pp=2, dp=4, tp=2)
    replica_1 = [rank for rank in range(16) if layout.coords(rank)["dp"] == 1]
    verdict = judged(layout, slow(*replica_1))
    assert verdict.findings == ()
    assert "replica 1" in verdict.set_aside[0]


@pytest.mark.parametrize("slow_steps", [2, 3])
def test_a_rank_slow_in_the_newest_steps_alone_is_noted(slow_steps: int) -> None:
    verdict = judged(compute=slow(5, x=3.0, first=STEPS - slow_steps))
    assert verdict.findings == ()
    (noted,) = verdict.set_aside
    assert noted.startswith("Rank 5 computes 3.0")
    assert f"since step {STEPS - slow_steps}: too short to tell" in noted
    assert verdict.checked is not None
    assert verdict.checked.startswith("No single rank was slow")
    several = judged(ParallelLayout.from_sizes(dp=32), slow(1, 2, 9, first=STEPS - 2))
    assert len(several.set_aside) == 1
    assert "Ranks " in several.set_aside[0]


def test_what_was_slow_before_is_noted_when_it_begins_again() -> None:
    def compute(rank: int, step: int) -> float:
        return 150.0 if rank == 5 and (8 <= step < 16 or step >= STEPS - 2) else 100.0

    verdict = judged(compute=compute)
    assert [finding.ongoing for finding in verdict.findings] == [False]
    assert verdict.set_aside[0].startswith("Rank 5 computes 1.5")
    assert "since step 28" in verdict.set_aside[0]


def test_one_rank_named_and_a_host_set_aside_is_no_other_single_rank() -> None:
    layout = ParallelLayout.from_sizes(dp=8, tp=4)
    verdict = judged(layout, slow(*range(8), 21), ranks_per_host=8)
    assert named(verdict) == [(21, SLOW_FROM)]
    assert verdict.checked is not None
    assert verdict.checked.startswith("No other single rank was slow")


def test_a_finding_that_is_over_is_past() -> None:
    finding = judged(compute=slow(5, last=15)).findings[0]
    assert (finding.first_step, finding.last_step, finding.ongoing) == (8, 15, False)
    assert finding.severity == "past"
    assert finding.title == "Rank 5 was slow"
    assert "from step 8 to 15, not since then" in finding.text


def test_it_is_over_only_after_some_steps() -> None:
    assert judged(compute=slow(5, last=STEPS - 3)).findings[0].ongoing  # two steps without it
    assert not judged(compute=slow(5, last=STEPS - 4)).findings[0].ongoing


def test_waits_give_cost_evidence_and_confidence() -> None:
    def caused(rank: int, step: int) -> float:
        return 320.0 if rank == 5 and step >= SLOW_FROM else 10.0

    groups = [
        {"rank": 5, "group_id": 1, "axis": "tp", "ranks": [4, 5], "wait_caused_ms": 200.0},
        {"rank": 5, "group_id": 2, "axis": "dp", "ranks": [1, 3, 5, 7], "wait_caused_ms": 100.0},
        {"rank": 5, "group_id": 3, "axis": "ep", "ranks": [5, 9], "wait_caused_ms": 1.0},
        {"rank": 4, "group_id": 1, "axis": "tp", "ranks": [4, 5], "wait_caused_ms": 9.0},
    ]
    finding = judged(caused_ms=caused, groups=groups).findings[0]
    assert finding.cost is not None
    assert finding.cost.ms_per_step == pytest.approx(30.0, abs=1.0)  # what it computes longer
    assert finding.cost.share == pytest.approx(finding.cost.ms_per_step / 200, abs=1e-4)
    assert finding.confidence == "high"
    assert finding.victims == (1, 3, 4, 7)  # not rank 9: next to nothing is waited for there
    assert "4 ranks wait 80 ms each per step on average" in finding.text  # those outlined
    by_question = {e.question: e for e in finding.evidence}
    assert dict(by_question["late_ranks"].params) == {
        "step_min": SLOW_FROM,
        "step_max": STEPS - 1,
        "attempt": 0,
    }
    links = [dict(e.view) for e in finding.evidence]
    timeline = next(link for link in links if link["page"] == "timeline")
    assert timeline["ranks"] == (5, 3, 4, 7, 13)  # its pipeline group, in order of the stages
    assert timeline["steps"] == (8, 9)


def test_the_cost_is_bounded_by_the_waits_of_those_that_wait() -> None:
    """Ranks of its stage that share no group with it wait for others, and lower no mean."""

    def caused(rank: int, step: int) -> float:
        return 50.0 if rank == 5 and step >= SLOW_FROM else 0.5

    groups = [
        {"rank": 5, "group_id": 1, "axis": "tp", "ranks": [4, 5], "wait_caused_ms": 25.0},
        {"rank": 5, "group_id": 2, "axis": "dp", "ranks": [5, 7], "wait_caused_ms": 25.0},
    ]
    finding = judged(caused_ms=caused, groups=groups).findings[0]
    assert "2 ranks wait 25 ms each per step on average" in finding.text
    assert finding.cost is not None
    assert finding.cost.ms_per_step == pytest.approx(25.0)


def test_contention_is_distinguished_where_cpu_time_was_recorded() -> None:
    def flat(rank: int, step: int) -> float:
        return 90.0 + rank % 2

    assert judged(device="cpu", cpu_ms=flat).findings == ()  # wall up, CPU flat
    wall = judged(device="cuda:0").findings[0]
    assert any("host contention" in one for one in wall.alternatives)


@pytest.mark.parametrize(
    ("steps", "sentence"), [(0, "No step is finished"), (1, "1 step is"), (3, "3 steps are")]
)
def test_too_few_steps(steps: int, sentence: str) -> None:
    verdict = judged(steps=steps)
    assert verdict.findings == ()
    assert verdict.checked is None
    assert sentence in verdict.not_enough[0].missing


def test_two_ranks_of_128_name_nobody() -> None:
    layout = ParallelLayout.from_sizes(dp=128)
    verdict = judged(layout, slow(1, x=2.0), ranks=[0, 1])
    assert verdict.findings == ()
    assert verdict.checked is None
    assert "126 of 128 ranks" in verdict.not_enough[0].missing


def test_without_a_layout_a_rank_must_have_changed_to_be_named() -> None:
    layout = ParallelLayout.from_sizes(dp=8)
    always = judged(layout, slow(5, first=0), known_layout=False)
    assert always.findings == ()
    assert "may be its share" in always.set_aside[0]
    changed = judged(layout, slow(5), known_layout=False)
    assert named(changed) == [(5, SLOW_FROM)]
    finding = changed.findings[0]
    assert finding.confidence == "low"
    assert "all 7 other ranks (the layout is not known)" in finding.evidence[0].sentence
    assert "x as long as that of the other ranks since" in finding.text
    assert any("its role is not known" in one for one in finding.alternatives)
    sentences = " ".join(
        e.sentence
        for e in judged(
            layout,
            slow(5),
            known_layout=False,
            caused_ms=lambda rank, step: 50.0 if rank == 5 else 1.0,
        )
        .findings[0]
        .evidence
    )
    assert "of the job" in sentences
    for invented in ("dp", "stage", "tp"):
        assert invented not in sentences


def test_a_lasting_difference_within_the_spread_of_the_peers_is_no_finding() -> None:
    quirks = [0.95, 1.05, 1.0, 0.97, 1.03, 1.06, 0.96, 1.0]
    verdict = judged(ParallelLayout.from_sizes(dp=8), lambda rank, step: 100 * quirks[rank])
    assert verdict.findings == ()


def test_what_comes_and_goes_is_one_finding() -> None:
    def often(rank: int, step: int) -> float:
        return 140.0 if rank == 5 and step >= 12 and step % 12 < 5 else 100.0

    (finding,) = judged(compute=often, steps=60).findings
    assert (finding.culprits[0].rank, finding.first_step, finding.ongoing) == (5, 12, False)
    assert finding.last_step == 52
    assert "on and off (4 times, 20 of 41 steps)" in finding.text
    assert finding.episodes == ((12, 16), (24, 28), (36, 40), (48, 52))
    assert finding.cost is not None
    assert (finding.cost.num_steps, finding.cost.ms_per_step) == (20, pytest.approx(40.0, abs=3.0))


@pytest.mark.parametrize("x", [1.6, 1.2])
def test_bursts_too_short_for_themselves_count_together(x: float) -> None:
    def bursts(rank: int, step: int) -> float:
        return 100.0 * x if rank == 5 and step % 7 in (3, 4) else 100.0

    (finding,) = judged(compute=bursts, steps=40).findings
    assert (finding.culprits[0].rank, finding.first_step) == (5, 3)
    assert finding.slowdown == pytest.approx(x, abs=0.02)


@pytest.mark.parametrize(("every", "is_reported"), [(4, True), (12, False)])
def test_single_long_steps_are_reported_where_they_come_often(
    every: int, is_reported: bool
) -> None:
    def spikes(rank: int, step: int) -> float:
        return 200.0 if rank == 5 and step % every == 2 else 100.0

    findings = judged(compute=spikes, steps=60).findings
    assert [finding.culprits[0].rank for finding in findings] == [5] * is_reported
    if is_reported:
        assert "on and off" in findings[0].text


@pytest.mark.parametrize("seed", [38, 39, 48, 135, 163, 182])
def test_work_that_varies_among_replicas_makes_no_slow_rank(seed: int) -> None:
    """Uneven sequences from a step on: whoever has more of them for some steps is not slow.

    Of 250 seeds these named somebody while the quiet steps before counted as noise, too.
    """
    layout = ParallelLayout.from_sizes(pp=2, dp=2, tp=4)
    random = np.random.default_rng(seed)
    work_SD = np.exp(random.normal(0, 0.12, (40, 2)))
    work_SD[:13] = 1.0

    def compute(rank: int, step: int) -> float:
        return 100.0 * float(work_SD[step, layout.coords(rank)["dp"]])

    assert judged(layout, compute, steps=40).findings == ()


def test_where_compute_holds_waiting_the_rank_with_longer_forwards_is_named() -> None:
    verdict = judged(
        compute=slow(4, 6),  # wait in their last backward
        forward_ms=slow(5),
        caused_ms=lambda rank, step: 0.0,
        wait_ms=0.0,
    )
    assert named(verdict) == [(5, SLOW_FROM)]
    assert "its backwards hold waiting for others" in verdict.findings[0].evidence[0].sentence


PP4 = ParallelLayout.from_sizes(pp=4)


@pytest.mark.parametrize(("first", "names"), [(2, []), (SLOW_FROM, [(1, SLOW_FROM)])])
def test_nobody_is_slower_than_before_without_a_past(
    first: int, names: list[tuple[int, int]]
) -> None:
    assert named(judged(PP4, slow(1, first=first))) == names


def test_a_rank_that_stays_as_it_was_is_not_slower_than_before() -> None:
    others_got_quicker = judged(PP4, lambda rank, step: 80.0 if rank and step >= 8 else 100.0)
    assert named(others_got_quicker) == []
