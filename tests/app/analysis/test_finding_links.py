"""Which finding a link names, and which view shows a finding."""

from __future__ import annotations

from dataclasses import replace

import pytest

from app.analysis.finding_links import (
    chosen_finding,
    evidence_view,
    finding_view,
    rank_of_numbers,
    stale_link_note,
)
from app.view_state import View
from diagnosis.findings import Diagnosis, Evidence, Place, Verdict
from tests.diagnosis.test_findings import EVIDENCE, a_finding, past_finding

VIEW = View("a_run")


URGENT, EARLY, LATE = a_finding(), past_finding(3, 9), past_finding(3, 40)
DIAGNOSIS = Diagnosis((Verdict("a", (EARLY, URGENT, LATE)),))


def test_without_a_link_the_most_urgent_finding_is_chosen() -> None:
    assert chosen_finding(DIAGNOSIS, None) is URGENT
    assert chosen_finding(Diagnosis((Verdict("a", checked="fine"),)), None) is None


def test_a_finding_whose_first_step_has_moved_is_the_same() -> None:
    assert chosen_finding(DIAGNOSIS, "slow_worker-0-3-7") is EARLY
    assert chosen_finding(DIAGNOSIS, LATE.id) is LATE
    assert stale_link_note(DIAGNOSIS, "slow_worker-0-3-7") is None
    assert stale_link_note(DIAGNOSIS, None) is None


@pytest.mark.parametrize(
    "gone", ["slow_worker-0-2-5", "slow_worker-1-5-5", "slow_link-0-5-5", "nonsense", "-7", ""]
)
def test_a_link_to_no_finding_falls_back_with_a_note(gone: str) -> None:
    assert chosen_finding(DIAGNOSIS, gone) is URGENT
    assert stale_link_note(DIAGNOSIS, gone) == (
        "The finding in the link no longer exists; the page shows “Rank 5 is slow” instead."
    )
    calm = Diagnosis((Verdict("a", checked="fine"),))
    assert stale_link_note(calm, gone) == "The finding in the link no longer exists."


def test_a_finding_is_seen_on_the_timeline_where_its_evidence_is() -> None:
    ranks_page = Evidence("Slow.", 2.0, "x", "rank_work", (), (("page", "ranks"), ("rank", 5)))
    both = replace(URGENT, evidence=(ranks_page, EVIDENCE))
    assert finding_view(both, VIEW) == View(
        "a_run", "timeline", ranks=(1, 5, 4), steps=(8, 9), finding=URGENT.id
    )
    assert finding_view(replace(URGENT, evidence=(ranks_page,)), VIEW).page == "ranks"
    assert evidence_view(ranks_page, VIEW) == View("a_run", "ranks", rank=5)


@pytest.mark.parametrize(
    ("culprits", "shown", "rank"),
    [((3, 4, 5), 5, 5), ((3, 4), 5, 3), ((5,), None, 5), ((), 5, None)],
)
def test_the_numbers_of_several_culprits_are_those_of_the_one_that_evidence_shows(
    culprits: tuple[int, ...], shown: int | None, rank: int | None
) -> None:
    view = () if shown is None else (("rank", shown),)
    evidence = Evidence("Slow.", 2.0, "x", "rank_work", (), view)
    finding = replace(
        URGENT, culprits=tuple(map(Place, culprits)), victims=(), evidence=(evidence,)
    )
    assert rank_of_numbers(finding) == rank


def test_show_me_opens_culprits_and_some_of_those_that_wait() -> None:
    several = replace(
        URGENT, culprits=(Place(5), Place(9)), victims=(4, 6, 8), evidence=(EVIDENCE,)
    )
    assert finding_view(several, VIEW).ranks == (1, 5, 9, 4, 6)
    has_one = replace(several, victims=(1, 4, 6))  # rank 1 is among the lanes of the evidence
    assert finding_view(has_one, VIEW).ranks == (1, 5, 9, 4)
