"""The banner: the finding that it chooses, its buttons, and that calm and unknown differ."""

from __future__ import annotations

from dataclasses import replace

import pytest

from app.analysis.diagnosis import diagnosis_of
from app.analysis.run_diagnosis import RunDiagnosis
from app.components.banner import banner
from app.components.topbar import findings_button
from app.runs.hub import Hub
from app.view_state import View, parse_url
from diagnosis.findings import Diagnosis, Place, Verdict
from tests.app.pages_in_process import having, text_of
from tests.app.recorded_runs import VIEW
from tests.diagnosis.test_findings import past_finding


def test_the_banner_names_the_rank_and_offers_to_show_it(diagnosis: Diagnosis) -> None:
    line = banner(diagnosis, VIEW, "/base")
    assert "urgent" in line.className
    assert text_of(line).startswith("Rank 5 is slow.")
    assert diagnosis.findings[0].text in text_of(line)
    (link,) = [part for part in having(line) if getattr(part, "href", None)]
    shown, problems = parse_url(*link.href.split("?"), base="/base")
    first = diagnosis.findings[0].first_step
    assert problems == []
    assert (shown.page, shown.rank, shown.ranks) == ("timeline", 5, (1, 5, 4, 7))
    assert shown.steps == (first, first + 1)
    assert (shown.attempt, shown.finding) == (0, diagnosis.findings[0].id)
    (copy,) = having(line, data_copy=link.href)
    assert copy.children == "Copy link"
    assert not having(line, data_act="finding-next")  # there is but one


def test_several_findings_are_counted_and_turned(diagnosis: Diagnosis) -> None:
    first = diagnosis.findings[0]
    second = replace(
        first, culprits=(Place(2),), severity="past", ongoing=False, title="Rank 2 was slow"
    )
    both = Diagnosis((Verdict("a", (second, first)),))
    line = banner(both, VIEW, "")
    assert "1 of 2" in text_of(line)
    assert having(line, data_act="finding-next")
    other = banner(both, VIEW.to(finding=second.id), "")
    assert "past" in other.className
    assert "Rank 2 was slow" in text_of(other)
    assert "2 of 2" in text_of(other)


WAITS = "Ranks 0 and 1 wait for rank 2 in all_reduce 31 of group 0 for 9 s."


def test_ranks_that_wait_now_come_before_what_is_slow(diagnosis: Diagnosis) -> None:
    waiting = RunDiagnosis(diagnosis.verdicts, unusual=WAITS, waits=WAITS)
    line = banner(waiting, View("r", attempt=2), "", "running")
    assert " ".join(text_of(line).split()).startswith(f"Ranks wait. {WAITS}")
    (link,) = [part for part in having(line) if getattr(part, "href", None)]
    assert link.href == "/run/r/stuck?attempt=2"
    named = banner(waiting, View("r", finding=diagnosis.findings[0].id), "", "running")
    assert text_of(named).startswith("Rank 5 is slow.")
    button = findings_button(RunDiagnosis((), waits=WAITS))
    assert button.children == "Ranks wait"
    assert button.to_plotly_json()["props"]["data-stuck"] == "true"
    hung = replace(diagnosis.findings[0], kind="hung_rank", title="Rank 2 is hung")
    known = RunDiagnosis((Verdict("stuck", (hung,)),), unusual=WAITS, waits=WAITS)
    assert findings_button(known).to_plotly_json()["props"]["data-stuck"] == "true"
    assert text_of(banner(known, View("r"), "", "running")).startswith("Rank 2 is hung.")


def test_a_finding_whose_first_step_has_moved_is_the_same(diagnosis: Diagnosis) -> None:
    first = diagnosis.findings[0]
    third, later = past_finding(3, 9), past_finding(3, 40)
    diagnosed = Diagnosis((Verdict("a", (first, third, later)),))
    moved = banner(diagnosed, VIEW.to(finding="slow_worker-0-3-7"), "")
    assert "Rank 3 was slow from 9" in text_of(moved)
    assert "no longer exists" not in text_of(moved)


@pytest.mark.parametrize(
    "gone", ["slow_worker-0-2-5", "slow_worker-1-5-5", "slow_link-0-5-5", "nonsense"]
)
def test_the_banner_notes_that_the_linked_finding_is_gone(
    hub: Hub, diagnosis: Diagnosis, gone: str
) -> None:
    line = banner(diagnosis, VIEW.to(finding=gone), "")
    assert "no longer exists; the page shows “Rank 5 is slow” instead." in text_of(line)
    calm = banner(diagnosis_of(hub, "healthy"), View("healthy", finding=gone), "")
    assert "The finding in the link no longer exists." in text_of(calm)
    for named in (None, diagnosis.findings[0].id):
        assert "no longer" not in text_of(banner(diagnosis, VIEW.to(finding=named), ""))


def test_healthy_and_unknown_are_not_the_same(hub: Hub) -> None:
    partly = banner(diagnosis_of(hub, "healthy"), View("healthy"), "")  # on shared cores
    assert "warning" in partly.className
    assert "but not everything could be judged" in text_of(partly)
    assert "Stage 1 computes" in text_of(partly)
    assert "Could not be judged: " not in text_of(partly)
    assert "8 ranks compared" in text_of(partly)
    fine = Diagnosis((Verdict("a", checked="No rank was slow."),))
    assert "calm" in banner(fine, View("healthy"), "").className
    assert "calm" not in banner(fine, View("healthy"), "", "lost").className
    for name, sentence in (
        ("short", "Only 3 steps are finished"),
        ("begun", "No step is finished"),
    ):
        line = banner(diagnosis_of(hub, name), View(name), "")
        assert "unknown" in line.className
        assert sentence in text_of(line)
    aside = Diagnosis((Verdict("a", checked="fine", set_aside=("Stage 1 is slow as a whole.",)),))
    assert "Stage 1 is slow as a whole." in text_of(banner(aside, VIEW, ""))
    assert "calm" not in banner(aside, VIEW, "").className
