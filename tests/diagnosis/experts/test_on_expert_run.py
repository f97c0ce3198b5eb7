"""The findings of a whole run with experts, with a hot one and without."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from app.analysis.diagnosis import diagnose_run
from app.analysis.finding_links import finding_view
from app.view_state import View, parse_url
from diagnosis.experts.echoes import of_full_experts
from diagnosis.findings import Cost, Evidence, Finding, Place
from ingest.run import open_run
from tests.expert_runs import HOT_EXPERT, HOT_FROM, HOT_LAYER, expert_run


def test_a_hot_expert_is_one_finding_and_its_ranks_are_not_slow(tmp_path: Path) -> None:
    with open_run(expert_run(tmp_path / "run")) as run:
        diagnosis = diagnose_run(run)
        (finding,) = diagnosis.findings
        question = finding.evidence[0]
        again = run.ask(question.question, **dict(question.params)).to_pylist()
    assert finding.title == f"Expert {HOT_EXPERT} of layer {HOT_LAYER} is given too many tokens"
    assert [place.rank for place in finding.culprits] == [1, 3]
    assert finding.first_step == HOT_FROM
    assert finding.cost is not None
    assert 1 < finding.cost.ms_per_step < 4
    slow = [sentence for sentence in diagnosis.set_aside if sentence.startswith("Rank")]
    assert sorted(slow) == [
        f"Rank {rank} is slow: expert 5 of layer 1 is given too many tokens." for rank in (1, 3)
    ]
    shown = finding_view(finding, View("run"))
    assert (shown.page, shown.expert) == ("experts", (HOT_LAYER, HOT_EXPERT))
    assert parse_url(*shown.url().split("?")) == (shown, [])
    assert {row["layer"] for row in again} == {HOT_LAYER}
    ratios = sorted(row["tokens"][HOT_EXPERT] * 8 / sum(row["tokens"]) for row in again)
    middle = (ratios[len(ratios) // 2] + ratios[(len(ratios) - 1) // 2]) / 2
    assert question.number == pytest.approx(middle, abs=1e-3)


def test_fair_routers_have_no_findings(tmp_path: Path) -> None:
    with open_run(expert_run(tmp_path / "run", is_hot=False)) as run:
        diagnosis = diagnose_run(run)
    assert diagnosis.findings == ()
    assert any("spread tokens over most of their experts" in text for text in diagnosis.checked)


def finding(kind: str, ranks: list[int], first: int, ms: float | None) -> Finding:
    return Finding(
        kind=kind,
        attempt=0,
        severity="warning",
        confidence="high",
        title=f"It is {kind}",
        text=f"Since step {first}.",
        culprits=tuple(map(Place, ranks)),
        first_step=first,
        last_step=90,
        ongoing=True,
        cost=None if ms is None else Cost(ms, 100.0, 40, 8),
        evidence=(Evidence("So.", 1.0, "x", "expert_load"),),
        alternatives=(),
        next_step="Look.",
    )


def test_a_slow_device_that_holds_a_hot_expert_is_a_finding_of_its_own(tmp_path: Path) -> None:
    with open_run(expert_run(tmp_path / "run", slow_rank=3)) as run:
        diagnosis = diagnose_run(run)
    kinds = {finding.kind: finding for finding in diagnosis.findings}
    assert set(kinds) == {"hot_expert", "slow_worker"}
    assert [place.rank for place in kinds["slow_worker"].culprits] == [3]
    assert [place.rank for place in kinds["hot_expert"].culprits] == [1, 3]


@pytest.mark.parametrize(("against", "is_echo"), [(1.02, True), (1.3, False), (math.nan, True)])
def test_a_rank_is_slow_by_itself_that_others_with_the_same_experts_are_not(
    against, is_echo
) -> None:
    hot = finding("hot_expert", [1, 3], 40, 6.0)
    slow = finding("slow_worker", [3], 42, 9.0)
    asked = []

    def of_rank(*rank_and_steps: int) -> float:
        asked.append(rank_and_steps)
        return against

    assert bool(of_full_experts([slow, hot], of_rank)) == is_echo
    assert asked == [(3, 42, 90)]


@pytest.mark.parametrize(
    ("slow", "is_echo"),
    [
        (("slow_worker", [3], 40, 5.0), True),
        (("slow_worker", [3, 1], 38, 15.0), True),
        (("slow_worker", [3], 40, 25.0), False),  # costs more than its experts do
        (("slow_worker", [3], 20, 5.0), False),  # was slow before
        (("slow_worker", [2], 40, 5.0), False),
        (("slow_worker", [2, 3], 40, 5.0), False),
        (("slow_stage", [3], 40, 5.0), False),
    ],
)
def test_which_slow_ranks_are_explained(slow, is_echo) -> None:
    hot = finding("hot_expert", [1, 3], 40, 6.0)
    why = of_full_experts([finding(*slow), hot])
    assert why == ({0: "It is slow_worker: it is hot_expert."} if is_echo else {})
    without_cost = finding("hot_expert", [1, 3], 40, None)
    assert of_full_experts([finding(*slow), without_cost]) == {}
