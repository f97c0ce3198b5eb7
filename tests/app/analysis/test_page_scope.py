"""Which steps a page shows: chosen ones, those of the finding, the newest; tiles follow."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from app.analysis import page_scope as module
from app.analysis.diagnosis import diagnosis_of
from app.analysis.kpis import kpis_of
from app.analysis.page_scope import PageScope, page_scope
from app.runs.hub import Hub
from app.view_state import View
from diagnosis.findings import Diagnosis, Finding, Verdict
from tests.app.recorded_runs import hub_of_recorded_runs


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    with hub_of_recorded_runs(tmp_path_factory.mktemp("scope")) as hub:
        yield hub


@pytest.fixture
def finding(hub: Hub) -> Finding:
    return diagnosis_of(hub, "slow_rank").findings[0]


def test_an_ongoing_finding_decides_unless_steps_are_chosen(hub: Hub) -> None:
    assert page_scope(hub, View("slow_rank")) == PageScope((5, 13), "since the finding begins")
    assert page_scope(hub, View("slow_rank", steps=(2, 3))) == PageScope((2, 3), "chosen")
    assert page_scope(hub, View("healthy")) == PageScope(
        (7, 13), "the newest 7"
    )  # tiles compare with 2 to 6
    assert page_scope(hub, View("begun")) == PageScope(None)


def test_a_finding_that_is_over_decides_only_where_the_view_names_it(
    hub: Hub, finding: Finding, monkeypatch: pytest.MonkeyPatch
) -> None:
    over = replace(finding, severity="past", ongoing=False, first_step=3, last_step=6)
    monkeypatch.setattr(module, "diagnosis_of", lambda *_: Diagnosis((Verdict("a", (over,)),)))
    assert page_scope(hub, View("slow_rank")).steps == (7, 13)
    named = page_scope(hub, View("slow_rank", finding=over.id))
    assert named == PageScope((3, 6), "those of the finding")


def test_of_a_long_finding_the_last_steps_are_shown(
    hub: Hub, finding: Finding, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "LAST_STEPS", 4)
    assert page_scope(hub, View("slow_rank")) == PageScope((10, 13), "the newest 4")
    over = replace(finding, severity="past", ongoing=False, last_step=11)
    monkeypatch.setattr(module, "diagnosis_of", lambda *_: Diagnosis((Verdict("a", (over,)),)))
    named = page_scope(hub, View("slow_rank", finding=over.id))
    assert named == PageScope((8, 11), "the last 4 of the finding")


def test_a_finding_since_which_no_step_has_finished_leaves_the_newest_steps(
    hub: Hub, finding: Finding, monkeypatch: pytest.MonkeyPatch
) -> None:
    hangs = replace(finding, first_step=14, last_step=14)
    monkeypatch.setattr(module, "diagnosis_of", lambda *_: Diagnosis((Verdict("a", (hangs,)),)))
    assert page_scope(hub, View("slow_rank")) == PageScope((7, 13), "the newest 7")


def test_pictures_of_large_jobs_do_not_wait_for_the_diagnosis(
    hub: Hub, finding: Finding, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MOST_RANKS_AT_ONCE", 7)
    assert page_scope(hub, View("slow_rank")).why == "the newest 7"
    assert page_scope(hub, View("slow_rank", finding=finding.id)).steps == (5, 13)


def test_an_opened_finding_has_a_tile_of_its_own_metric(hub: Hub, finding: Finding) -> None:
    keys = [kpi.key for kpi in kpis_of(hub, View("slow_rank"))]
    assert "finding" not in keys
    cost, first, *others = kpis_of(hub, View("slow_rank", finding=finding.id))
    assert (first.label, first.unit, first.tone) == ("Slowdown, rank 5", "x", "bad")
    assert first.detail == "median of its peers 1.00 x"
    assert 1.4 < float(first.value) < 1.7
    assert [step for step, _ in first.series] == list(range(5, 14))
    assert [cost.key, *(kpi.key for kpi in others)] == keys
    chosen = kpis_of(hub, View("slow_rank", finding=finding.id, metric="wait_caused"))[1]
    assert (chosen.label, chosen.unit) == ("Wait caused, rank 5", "rank-ms")
