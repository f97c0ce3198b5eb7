"""One cause, one finding: episodes, hosts, the whole job, and at most ten."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from diagnosis.findings import Cost, Diagnosis, Evidence, Finding, Place, Verdict
from diagnosis.one_cause import merged
from diagnosis.one_cause.deaths import without_echoes
from diagnosis.one_cause.episodes import joined, steps_of
from diagnosis.one_cause.intervals import said_once
from diagnosis.one_cause.listing import MOST_FINDINGS, listed
from diagnosis.one_cause.whole_job import unexplained

HOSTS: dict[int, str | None] = {rank: f"node{rank // 4}" for rank in range(16)}
EVIDENCE = Evidence("Slow.", 1.5, "x", "rank_work")


def finding(rank: int | None, first: int, last: int, ms: float = 10.0, **changes: Any) -> Finding:
    values: dict[str, Any] = {
        "kind": "slow_worker",
        "attempt": 0,
        "severity": "past",
        "confidence": "high",
        "title": f"Rank {rank} was slow",
        "text": "It was slow.",
        "culprits": () if rank is None else (Place(rank, HOSTS[rank]),),
        "first_step": first,
        "last_step": last,
        "ongoing": False,
        "cost": Cost(ms, 100.0, last - first + 1, 16),
        "evidence": (EVIDENCE,),
        "alternatives": (),
        "next_step": "Look.",
    }
    return Finding(**values | changes)


def together(*findings: Finding) -> tuple[Finding, ...]:
    return merged(Diagnosis((Verdict("slow_worker", findings),)), HOSTS, unknown).findings


def unknown(rank: int, first_step: int, last_step: int) -> float:
    return float("nan")


def test_episodes_of_one_rank_are_one_finding() -> None:
    (only,) = together(finding(3, 5, 9), finding(3, 20, 29, 40.0), finding(3, 50, 54))
    assert (only.first_step, only.last_step) == (5, 54)
    assert steps_of(only) == ((5, 9), (20, 29), (50, 54))
    assert "It came 3 times: steps 5 to 9, steps 20 to 29, steps 50 to 54." in only.text
    assert only.cost is not None
    assert only.cost.num_steps == 20
    assert only.cost.ms_per_step == pytest.approx((5 * 10 + 10 * 40 + 5 * 10) / 20)
    assert Finding.from_json(only.to_json()) == only


def test_what_came_again_is_not_said_to_be_over() -> None:
    first = finding(3, 5, 9, 40.0, text="It was slow from step 5 to 9, not since then.")
    both = joined([first, finding(3, 20, 29)])
    assert (
        both.text == "It was slow from step 5 to 9. It came 2 times: steps 5 to 9, steps 20 to 29."
    )


def test_what_goes_on_decides_the_severity() -> None:
    now = finding(3, 50, 59, ongoing=True, severity="urgent")
    both = joined([finding(3, 5, 9, 90.0), now])
    assert (both.severity, both.ongoing) == ("urgent", True)


@pytest.mark.parametrize(
    ("kind", "title", "kept"),
    [
        ("slow_op", "Operation mlp takes longer", 2),
        ("slow_op", "Operation attention takes longer", 1),
        ("step_regression", "Steps are longer than before", 1),
    ],
)
def test_two_slow_operations_are_two_findings(kind: str, title: str, kept: int) -> None:
    attention = finding(None, 20, 39, kind=kind, title="Operation attention takes longer")
    other = finding(None, 60, 79, kind=kind, title=title)
    assert len(together(attention, other)) == kept


def test_parts_that_overlap_are_said_to_begin_with_the_first_of_them() -> None:
    """One began a little earlier, the other costs more."""
    early = finding(3, 48, 90, 1.0, text="It was late from step 48 to 90, not since then.")
    (only,) = together(
        early, finding(3, 50, 99, 20.0, text="It was slow from step 50 to 99, not since then.")
    )
    assert (only.first_step, only.last_step, only.episodes) == (48, 99, ())
    assert only.text == "It was slow from step 48 to 99, not since then."


def test_other_kinds_and_other_ranks_stay_apart() -> None:
    apart = (finding(3, 5, 9), finding(4, 5, 9), finding(3, 50, 90, kind="data_loader"))
    assert len(together(*apart)) == 3


def test_a_rank_that_loses_time_in_two_ways_together_is_one_finding() -> None:
    slow = finding(
        3, 5, 30, confidence="low", victims=(1, 2),
        text="It was slow from step 5 to 30, not since then.",
    )  # fmt: skip
    waits = finding(
        3, 6, 31, 20.0, kind="data_loader", victims=(0,),
        text="It waited from step 6 to 31, not since then.",
    )  # fmt: skip
    (both,) = together(slow, waits)
    assert (both.kind, both.confidence, both.victims) == ("data_loader", "high", (0, 1, 2))
    assert both.text == ("It waited from step 6 to 31, not since then. It was slow meanwhile.")
    assert both.cause.startswith(
        "These ways of losing time began together: “waiting for data” and “slow rank”."
    )
    assert both.cost is not None
    assert both.cost.ms_per_step == 30.0
    assert len(both.evidence) == 2


@pytest.mark.parametrize(
    "other",
    [
        finding(3, 8, 30, kind="data_loader"),  # began later
        finding(3, 5, 60, kind="data_loader"),  # went on for longer
        finding(4, 5, 30, kind="data_loader"),
        finding(3, 5, 30, kind="slow_link"),  # says nothing of the rank's own time
    ],
)
def test_what_does_not_come_together_has_causes_of_its_own(other: Finding) -> None:
    assert len(together(finding(3, 5, 30), other)) == 2


def test_a_host_that_loses_time_in_two_ways_is_one_finding() -> None:
    ranks = (4, 5, 6, 7)
    slow = [finding(rank, 5, 30) for rank in ranks]
    waiting = [finding(rank, 5, 30, 5.0, kind="data_loader") for rank in ranks]
    (only,) = together(*slow, *waiting)
    assert (only.kind, only.hosts, only.title) == ("slow_worker", ("node1",), "Host node1 was slow")


def test_nearly_all_ranks_of_a_host_are_one_finding_on_it() -> None:
    ranks = [finding(rank, 5, 30, 10.0 + rank, slowdown=1.5) for rank in (4, 5, 6, 7)]
    (only,) = together(*ranks)
    assert only.hosts == ("node1",)
    assert [place.rank for place in only.culprits] == [4, 5, 6, 7]
    assert only.title == "Host node1 was slow"
    assert only.cause.startswith("All 4 ranks of host node1 took longer to compute")
    assert only.text == "Rank 7: it was slow."
    assert only.next_step.startswith("Look at what the ranks of node1 share")
    (some,) = together(*(finding(rank, 5, 30, kind="data_loader") for rank in (4, 5, 6, 7)))
    assert some.title == "4 ranks of host node1: rank 4 was slow"


@pytest.mark.parametrize(
    ("slowdown", "cause"),
    [
        (1.5, "4 of 5 ranks of host node0 took longer to compute the same work than"),
        (None, "It idles. So it is on 4 of 5 ranks of host node0."),
    ],
)
def test_of_ranks_of_a_host_no_more_is_said_than_is_known(
    slowdown: float | None, cause: str
) -> None:
    """Not all of them are slow, or it is not their compute that is longer."""
    hosts: dict[int, str | None] = {rank: f"node{rank // 5}" for rank in range(10)}
    ranks = [
        finding(rank, 5, 30, slowdown=slowdown, cause="It idles.", culprits=(Place(rank, "node0"),))
        for rank in range(4)
    ]
    diagnosis = Diagnosis((Verdict("slow_worker", tuple(ranks)),))
    (only,) = merged(diagnosis, hosts, unknown).findings
    assert only.cause.startswith(cause)


@pytest.mark.parametrize("host", ["node0", None])
def test_ranks_together_go_on_while_one_of_them_does(host: str | None) -> None:
    """Steps, severity, text and cost say the same."""

    def late(rank: int, first: int, last: int, ms: float, is_over: bool) -> Finding:
        since = f"from step {first} to {last}, not since then" if is_over else f"since step {first}"
        return finding(
            rank, first, last, ms, kind="launch_skew", text=f"It was late {since}.",
            severity="past" if is_over else "warning", ongoing=not is_over,
            culprits=(Place(rank, host),),
        )  # fmt: skip

    hosts = {rank: host if rank < 3 else "other" if host else None for rank in range(32)}
    found = (late(0, 10, 60, 90, True), late(1, 9, 99, 2, False), late(2, 11, 99, 3, False))
    (only,) = merged(Diagnosis((Verdict("d", found),)), hosts, unknown).findings
    assert [place.rank for place in only.culprits] == [0, 1, 2]
    assert (only.first_step, only.last_step) == (9, 99)
    assert (only.severity, only.ongoing) == ("warning", True)
    assert only.text.startswith("It was late since step 9.")
    assert only.cost is not None
    assert only.cost.num_steps == 91


@pytest.mark.parametrize("kind", ["slow_worker", "launch_skew"])
@pytest.mark.parametrize(
    ("slow", "first", "kept"), [("node3", 5, 1), ("node1", 5, 2), ("node3", 40, 2)]
)
def test_a_host_may_wait_for_the_slow_network_of_another_one(
    slow: str, first: int, kept: int, kind: str
) -> None:
    network = finding(None, first, first + 25, kind="slow_host", hosts=(slow,), title="Slow host")
    ranks = [finding(4, 5, 30, kind=kind, hosts=("node1",))]
    diagnosis = Diagnosis((Verdict("slow_worker", (*ranks, network)),))
    left = merged(diagnosis, HOSTS, unknown)
    assert len(left.findings) == kept
    assert bool(left.set_aside) == (kept == 1)
    assert all("may wait for node3 meanwhile" in why for why in left.set_aside)


@pytest.mark.parametrize(
    ("kind", "rank", "first", "kept"),
    [
        ("slow_node_link", 5, 5, 1),
        ("slow_node_link", 9, 5, 2),
        ("slow_node_link", 5, 40, 2),
        ("slow_worker", 5, 5, 2),
        ("slow_link", 9, 5, 1),
        ("slow_dp_network", 9, 5, 1),
        ("link_flap", 9, 5, 1),
    ],
)
def test_links_of_ranks_that_do_not_run_are_no_cause(
    kind: str, rank: int, first: int, kept: int
) -> None:
    stopped = finding(4, 5, 30, kind="stopped_process", title="Rank 4 was stopped")
    ends = [Place(rank, HOSTS[rank])]
    if kind in ("slow_link", "slow_dp_network", "link_flap"):
        ends.append(Place(6, "node1"))
    link = finding(
        rank, first, first + 25, kind=kind, title="Links inside it", culprits=tuple(ends)
    )
    left = merged(Diagnosis((Verdict("slow_worker", (stopped, link)),)), HOSTS, unknown)
    assert len(left.findings) == kept
    assert left.set_aside == (("Links inside it: rank 4 was stopped.",) if kept == 1 else ())


@pytest.mark.parametrize(("last", "kept"), [(40, 1), (90, 2)])
def test_a_link_that_was_slow_long_after_its_rank_ran_again_is_kept(last: int, kept: int) -> None:
    stopped = finding(4, 5, 30, kind="stopped_process", title="Rank 4 was stopped")
    link = finding(5, 5, last, kind="slow_node_link", title="Links inside it")
    left = merged(Diagnosis((Verdict("slow_worker", (stopped, link)),)), HOSTS, unknown)
    assert len(left.findings) == kept


@pytest.mark.parametrize(("rank", "first", "kept"), [(5, 5, 1), (9, 5, 2), (5, 40, 2)])
def test_ranks_of_a_host_that_is_kept_from_its_cores_are_part_of_that(
    rank: int, first: int, kept: int
) -> None:
    host = finding(4, 5, 30, kind="host_contention", hosts=("node1",))
    late = finding(rank, first, first + 25, kind="launch_skew")
    assert len(together(host, late)) == kept


@pytest.mark.parametrize(("first", "kept"), [(6, 1), (9, 2)])
@pytest.mark.parametrize("kind", ["host_contention", "slow_host"])
def test_a_host_that_starts_late_when_another_becomes_slow_may_wait_for_it(
    kind: str, first: int, kept: int
) -> None:
    """Of a slow network whole hosts are part whenever they overlap."""
    slow = finding(4, 5, 30, kind=kind, hosts=("node1",))
    late = finding(9, first, 30, kind="launch_skew", hosts=("node2",))
    assert len(together(slow, late)) == (kept if kind == "host_contention" else 1)


@pytest.mark.parametrize(("first", "kept"), [(6, 1), (9, 2)])
def test_a_rank_that_starts_late_when_a_network_becomes_slow_may_wait_for_it(
    first: int, kept: int
) -> None:
    network = finding(4, 5, 30, kind="slow_host", hosts=("node1",))
    assert len(together(network, finding(9, first, 30, kind="launch_skew"))) == kept


@pytest.mark.parametrize(("host", "first", "kept"), [("node1", 5, 1), ("node2", 5, 2)])
def test_a_host_that_is_kept_from_its_cores_is_not_called_slow_as_well(
    host: str, first: int, kept: int
) -> None:
    held = finding(4, 5, 30, kind="host_contention", hosts=("node1",))
    slow = finding(4, first, first + 25, hosts=(host,))
    assert len(together(held, slow)) == kept


def test_two_of_four_ranks_of_a_host_are_two_findings() -> None:
    assert len(together(finding(4, 5, 30), finding(6, 5, 30))) == 2


@pytest.mark.parametrize(
    ("others_still", "ranks"), [(0.08, [4, 5, 6, 7]), (0.01, [4, 6]), (float("nan"), [4, 6])]
)
def test_ranks_kept_from_their_cores_bring_those_that_stand_still_as_they_do(
    others_still: float, ranks: list[int]
) -> None:
    def still(rank: int, first_step: int, last_step: int) -> float:
        return 0.1 if rank in (4, 6) else others_still

    kept = [finding(rank, 5, 30, kind="host_contention") for rank in (4, 6)]
    diagnosis = Diagnosis((Verdict("launch_skew", tuple(kept)),))
    (only,) = merged(diagnosis, HOSTS, still).findings
    assert [place.rank for place in only.culprits] == ranks
    assert only.hosts == (("node1",) if len(ranks) == 4 else ())


def test_nearly_all_ranks_of_the_job_are_nobodys_fault() -> None:
    one_host = dict.fromkeys(range(8), "node0")
    ranks = tuple(finding(rank, 5, 30) for rank in range(7))
    diagnosis = merged(Diagnosis((Verdict("slow_worker", ranks),)), dict(one_host), unknown)
    assert diagnosis.findings == ()
    (why,) = diagnosis.set_aside
    assert "7 of 8 ranks" in why
    assert "so many may share one cause" in why
    assert "no rank" not in why
    assert diagnosis.checked == ("What stood out here is no finding by itself.",)


def slower(first: int, last: int, ms: float) -> Verdict:
    job = finding(None, first, last, ms, kind="step_regression", title="Steps are longer")
    return Verdict("job_slower", (job,))


def of_whole_job(diagnosis: Diagnosis) -> Diagnosis:
    """What is left where nothing is merged."""
    return unexplained(diagnosis, "job_slower", lambda others: others)


@pytest.mark.parametrize(
    ("other", "kept"),
    [
        (finding(3, 20, 59, 1.0), ["slow_worker"]),  # begins when steps become longer
        (finding(3, 38, 59, 12.0), ["slow_worker"]),  # costs most of it
        (finding(3, 50, 59, 40.0), ["slow_worker", "step_regression"]),  # in some steps only
        (finding(3, 5, 9, 50.0), ["slow_worker", "step_regression"]),  # was over before
        (finding(3, 40, 59, 2.0), ["slow_worker", "step_regression"]),
    ],
)
def test_a_slower_job_that_others_explain_is_no_finding(other: Finding, kept: list[str]) -> None:
    diagnosis = Diagnosis((Verdict("slow_worker", (other,)), slower(20, 59, 10.0)))
    left = of_whole_job(diagnosis)
    assert sorted(f.kind for f in left.findings) == kept


def test_a_slower_job_is_a_finding_where_the_ranks_behind_it_are_too_many() -> None:
    slow = Verdict("slow_worker", tuple(finding(rank, 20, 59, 10.0) for rank in (1, 3, 5)))
    hosts: dict[int, str | None] = dict.fromkeys(range(8))
    merge = partial(merged, hosts=hosts, still=unknown)
    left = unexplained(Diagnosis((slow, slower(20, 59, 10.0))), "job_slower", merge)
    assert [f.kind for f in left.findings] == ["step_regression"]
    assert "so many may share one cause" in left.set_aside[0]


@pytest.mark.parametrize(
    ("kind", "ms", "kept"),
    [
        ("comm_regression", 4.0, "comm_regression"),  # adds up along a pipeline
        ("slow_op", 4.0, "slow_op"),
        ("comm_regression", 3.0, "step_regression"),  # too little of it
        ("data_loader", 4.0, "step_regression"),  # the others do the rest of it
    ],
)
def test_a_cause_that_names_nobody_takes_the_place_of_a_slower_job(
    kind: str, ms: float, kept: str
) -> None:
    cause = finding(None, 21, 59, ms, kind=kind)
    diagnosis = Diagnosis((Verdict("other", (cause,)), slower(20, 59, 10.0)))
    assert [f.kind for f in of_whole_job(diagnosis).findings] == [kept]


@pytest.mark.parametrize(("first", "last"), [(30, 33), (40, 59)], ids=["for a while", "later"])
def test_a_cause_of_the_whole_run_hides_no_later_rise(first: int, last: int) -> None:
    cause = finding(None, 0, 59, 4.0, kind="comm_regression")
    diagnosis = Diagnosis((Verdict("other", (cause,)), slower(first, last, 10.0)))
    kinds = {f.kind for f in of_whole_job(diagnosis).findings}
    assert kinds == {"comm_regression", "step_regression"}


@pytest.mark.parametrize(("kind", "kept"), [("jit_spikes", 2), ("slow_worker", 1)])
def test_rare_steps_of_a_rank_hide_no_few_steps_on_end(kind: str, kept: int) -> None:
    found = finding(3, 5, 59, 0.5, kind=kind)
    diagnosis = Diagnosis((Verdict("other", (found,)), slower(40, 45, 50.0)))
    assert len(of_whole_job(diagnosis).findings) == kept


@pytest.mark.parametrize(("first", "last", "kept"), [(40, 47, 1), (40, 70, 2), (70, 77, 2)])
def test_longer_compute_of_all_for_few_steps_of_a_slow_rank_is_set_aside(
    first: int, last: int, kept: int
) -> None:
    slow = Verdict("slow_worker", (finding(3, 30, 59, 20.0),))
    more = finding(None, first, last, 30.0, kind="step_regression")
    left = of_whole_job(Diagnosis((slow, Verdict("step_regression", (more,)))))
    assert len(left.findings) == kept
    assert kept == 2 or "names who was slow" in left.set_aside[0]


def test_a_small_part_that_names_nobody_is_set_aside() -> None:
    part = finding(None, 22, 50, 3.0, kind="data_loader")
    left = of_whole_job(Diagnosis((Verdict("data_loader", (part,)), slower(20, 59, 10.0))))
    assert [f.kind for f in left.findings] == ["step_regression"]
    assert "part of what all steps are longer by" in left.set_aside[0]


@pytest.mark.parametrize(
    ("kind", "ranks", "first", "kept"),
    [
        ("allocator_stalls", (3, 4), 20, ["allocator_stalls"]),
        ("allocator_stalls", (), 20, ["allocator_stalls"]),
        ("allocator_stalls", (4,), 20, ["allocator_stalls", "slow_worker"]),
        ("allocator_stalls", (3,), 70, ["allocator_stalls", "slow_worker"]),
        ("jit_spikes", (3,), 20, ["slow_worker"]),
        ("jit_spikes", (3, 4), 20, ["jit_spikes", "slow_worker"]),
        ("jit_spikes", (), 20, ["jit_spikes", "slow_worker"]),
        ("data_loader", (3,), 20, ["data_loader", "slow_worker"]),
    ],
)
def test_a_rank_late_at_intervals_is_told_once(
    kind: str, ranks: tuple[int, ...], first: int, kept: list[str]
) -> None:
    late = Verdict("late_at_intervals", (finding(3, 20, 99),))
    seen = Evidence("14 of 100 steps take longer.", 14.0, "steps", "rank_phases")
    places = tuple(Place(rank, HOSTS[rank]) for rank in ranks)
    other = finding(None, first, 99, kind=kind, culprits=places, evidence=(seen,))
    left = said_once(Diagnosis((late, Verdict("other", (other,)))), "late_at_intervals").findings
    assert sorted(f.kind for f in left) == kept
    evidence = [sentence for f in left for sentence in f.evidence]
    assert seen in evidence  # it is lost with no finding


@pytest.mark.parametrize(
    ("rank", "first", "kept"),
    [
        (3, 22, ["slow_worker"]),
        (4, 22, ["jit_spikes", "slow_worker"]),
        (3, 70, ["jit_spikes", "slow_worker"]),
    ],
)
def test_rare_long_steps_of_a_rank_that_is_slow_in_them_are_evidence_of_that(
    rank: int, first: int, kept: list[str]
) -> None:
    seen = Evidence("5 of 100 steps take longer.", 5.0, "steps", "rank_phases")
    rare = finding(rank, first, 99, kind="jit_spikes", evidence=(seen,))
    left = together(finding(3, 20, 99), rare)
    assert sorted(f.kind for f in left) == kept
    assert seen in [sentence for f in left for sentence in f.evidence]


def test_at_most_ten_are_listed_and_the_others_counted() -> None:
    many = tuple(finding(rank, rank, 60 + rank, 1.0 + rank) for rank in range(14))
    diagnosis = listed(Diagnosis((Verdict("slow_worker", many),)))
    assert len(diagnosis.findings) == MOST_FINDINGS
    assert {f.culprits[0].rank for f in diagnosis.findings} == set(range(4, 14))
    assert diagnosis.set_aside == (
        "4 more findings of less urgency or cost are not listed: slow rank (4).",
    )


def test_one_that_is_not_listed_is_counted() -> None:
    many = tuple(finding(rank, rank, 60 + rank, 1.0 + rank) for rank in range(11))
    assert listed(Diagnosis((Verdict("slow_worker", many),))).set_aside == (
        "1 more finding of less urgency or cost is not listed: slow rank (1).",
    )


def test_what_a_detector_set_aside_stays_where_its_findings_are_not_listed() -> None:
    many = tuple(finding(rank, rank, 60 + rank, 100.0) for rank in range(MOST_FINDINGS))
    small = Verdict("b", (finding(12, 5, 9, 0.1),), set_aside=("Rank 3 was late once.",))
    diagnosis = listed(Diagnosis((Verdict("a", many), small)))
    assert "Rank 3 was late once." in diagnosis.set_aside


def test_a_quarter_of_a_job_without_hosts_is_nobodys_fault() -> None:
    found = [finding(rank, 10, 50) for rank in range(4)]
    diagnosis = merged(Diagnosis((Verdict("d", tuple(found)),)), dict.fromkeys(range(16)), unknown)
    assert diagnosis.findings == ()


def test_few_of_a_job_are_named_where_most_hosts_are_known() -> None:
    hosts = {rank: f"node{rank // 8}" if rank > 3 else None for rank in range(64)}
    found = [finding(rank, 10, 50) for rank in range(3)]
    diagnosis = merged(Diagnosis((Verdict("d", tuple(found)),)), hosts, unknown)
    assert [[p.rank for p in f.culprits] for f in diagnosis.findings] == [[0, 1, 2]]


def test_ranks_of_unknown_hosts_that_begin_together_are_one_finding() -> None:
    hosts = dict.fromkeys(range(32))
    found = [
        finding(rank, 9 + rank, 50, 10.0 + rank, next_step="Record this rank.") for rank in range(3)
    ]
    later = finding(5, 30, 50)
    diagnosis = merged(Diagnosis((Verdict("d", (*found, later)),)), hosts, unknown)
    whole, single = diagnosis.findings
    assert [place.rank for place in whole.culprits] == [0, 1, 2]
    assert (whole.first_step, whole.last_step, whole.hosts) == (9, 50, ())
    assert whole.title == "3 ranks together: rank 2 was slow"
    assert "ranks 0, 1" in whole.text
    assert whole.next_step.endswith("such as a host. Record rank 2.")
    assert single == later
    diagnosis = merged(Diagnosis((Verdict("d", (*found[:2], later)),)), hosts, unknown)
    assert set(diagnosis.findings) == {*found[:2], later}


def test_a_death_in_a_collective_that_was_entered_differently_is_its_echo() -> None:
    mismatch = finding(2, 30, 30, kind="mismatched_size", cost=None)
    death = finding(1, 30, 30, kind="dead_rank", cost=None)
    verdicts = (Verdict("stuck", (mismatch,)), Verdict("dead_rank", (death,)))
    assert without_echoes(Diagnosis(verdicts)).findings == (mismatch,)
    assert without_echoes(Diagnosis(verdicts[1:])).findings == (death,)


def test_a_rank_that_was_seen_alive_is_not_dead() -> None:
    hung = finding(1, 30, 30, kind="hung_rank", cost=None)
    deaths = [finding(rank, 30, 30, kind="dead_rank", cost=None) for rank in (1, 2)]
    verdicts = (Verdict("stuck", (hung,)), Verdict("dead_rank", tuple(deaths)))
    assert without_echoes(Diagnosis(verdicts)).findings == (hung, deaths[1])


@pytest.mark.parametrize("kind", ["hung_rank", "missing_rank", "group_order_deadlock"])
def test_ranks_of_a_stuck_job_that_somebody_kills_later_are_no_cause(kind: str) -> None:
    stuck = finding(1, 30, 30, kind=kind, cost=None, victims=(0, 2))
    deaths = [finding(rank, 30, 30, kind="dead_rank", cost=None) for rank in (1, 2, 3)]
    verdicts = (Verdict("stuck", (stuck,)), Verdict("dead_rank", tuple(deaths)))
    assert without_echoes(Diagnosis(verdicts)).findings == (stuck, deaths[2])
