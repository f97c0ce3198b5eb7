"""Several culprits, whole hosts, and findings that name nobody."""

from __future__ import annotations

from typing import Any

from benchmarks.accuracy.score import names_nobody, score, verdicts
from sample_traces.generate.labelled.labels import Label

FITTING = ("slow_worker", "data_loader")


def planted(*ranks: int, **more: Any) -> Label:
    return Label("launch_skew", ranks, (), more.pop("hosts", ()), 20, 80, also=FITTING, **more)


def finding_of(kind: str, *ranks: int, first: int = 20, **more: Any) -> dict[str, Any]:
    confidence = more.pop("confidence", "high")
    return {
        "kind": kind,
        "ranks": list(ranks),
        "stages": [],
        "steps": [first, 80],
        "confidence": confidence,
        **more,
    }


def test_each_kind_that_fits_is_right() -> None:
    for kind in ("launch_skew", *FITTING):
        assert score([planted(3)], [finding_of(kind, 3)]).matches[0].is_located
    other = score([planted(3)], [finding_of("slow_link", 3)])
    assert (other.matches[0].finding, len(other.false)) == (None, 1)


def test_one_finding_may_name_the_culprits_of_two_labels() -> None:
    labels = [planted(3), planted(5)]
    both = score(labels, [finding_of("slow_worker", 3, 5)])
    assert [match.is_located for match in both.matches] == [True, True]
    assert both.false == both.innocents == []
    apart = score(labels, [finding_of("slow_worker", 3), finding_of("data_loader", 5)])
    assert [match.is_located for match in apart.matches] == [True, True]


def test_an_innocent_beside_the_culprit_is_a_false_name() -> None:
    found = score([planted(3)], [finding_of("slow_worker", 3, 4)])
    assert not found.matches[0].is_located
    assert [finding["ranks"] for finding in found.innocents] == [[3, 4]]


def test_a_host_is_named_as_a_whole_or_nobody_is() -> None:
    label = planted(0, 1, 2, 3, hosts=("node 0",), or_nobody=True)
    for right in (
        finding_of("slow_worker", hosts=["node 0"]),
        finding_of("slow_worker", 0, 1, 2, 3),
        finding_of("slow_worker"),
    ):
        assert score([label], [right]).matches[0].is_located
    single = score([label], [finding_of("slow_worker", 2)])
    assert not single.matches[0].is_located


def test_findings_about_the_job_are_true_where_steps_are_longer() -> None:
    longer = finding_of("step_regression", steps_are_longer=True)
    same = finding_of("step_regression", steps_are_longer=False)
    cause = finding_of("slow_op", steps_are_longer=True)
    assert names_nobody(longer)
    scored = score([], [longer, same, cause])
    assert scored.false == []
    assert scored.untrue == [same, cause]


def test_naming_whom_the_recorded_noise_delays_is_true_and_counted_by_itself() -> None:
    of_noise = finding_of("host_contention", 4, 5, is_of_noise=True)
    other = finding_of("host_contention", 6, is_of_noise=False)
    scored = score([planted(3)], [of_noise, other])
    assert (scored.of_noise, scored.false) == ([of_noise], [other])
    assert [right for _, right in verdicts([], [of_noise, other])] == [True, False]


def test_onset_is_that_of_the_nearest_episode() -> None:
    found = finding_of("slow_worker", 3, first=2, episodes=[[2, 5], [21, 80]])
    assert score([planted(3)], [found]).matches[0].onset_error == 1


def test_verdicts_leave_out_what_cannot_be_identified() -> None:
    findings = [
        finding_of("slow_worker", 3),
        finding_of("slow_worker", 9),
        finding_of("step_regression", steps_are_longer=True),
    ]
    assert [right for _, right in verdicts([planted(3)], findings)] == [True, False, True]
    hidden = planted(3, why_not="all ranks look alike")
    assert [right for _, right in verdicts([hidden], findings[:2])] == [False]


def test_one_finding_about_the_job_may_be_about_two_faults_of_the_same_time() -> None:
    at_once = [Label("step_regression", (), (), (), first, 90) for first in (20, 40)]
    whole = [finding_of("step_regression", steps_are_longer=True)]
    assert [match.is_located for match in score(at_once, whole).matches] == [True, True]
    apart = [Label("step_regression", (), (), (), *steps) for steps in ((20, 30), (40, 90))]
    assert [match.is_located for match in score(apart, whole).matches] == [True, False]


def test_naming_a_culprit_that_the_data_do_not_show_is_not_wrong() -> None:
    label = Label("step_regression", (), (), (), 20, 80, culprits=(3,))
    named = score([label], [finding_of("slow_worker", 3)])
    assert (named.matches[0].finding, named.false) == (None, [])
    assert verdicts([label], [finding_of("slow_worker", 3)]) == []
    assert len(score([label], [finding_of("slow_worker", 3, 4)]).false) == 1
    both = score([planted(5), label], [finding_of("slow_worker", 3, 5)])
    assert both.matches[0].is_located
