"""Findings check themselves, keep their id, and survive JSON."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from diagnosis.findings import (
    Cost,
    Diagnosis,
    Evidence,
    Finding,
    NotEnoughData,
    Place,
    Verdict,
)

EVIDENCE = Evidence(
    "It computes 1.5x.",
    1.5,
    "x",
    "slowest_ranks",
    (("step_min", 8),),
    (("page", "timeline"), ("ranks", (1, 5)), ("steps", (8, 9))),
)


def a_finding(**changes: Any) -> Finding:
    values: dict[str, Any] = {
        "kind": "slow_worker",
        "attempt": 0,
        "severity": "urgent",
        "confidence": "high",
        "title": "Rank 5 is slow",
        "text": "computes 1.5x its peers",
        "culprits": (Place(5, "node0", (("pp", 1), ("tp", 1))),),
        "victims": (1, 4),
        "first_step": 8,
        "last_step": 12,
        "ongoing": True,
        "slowdown": 1.5,
        "cost": Cost(24.0, 160.0, 5, 8),
        "evidence": (EVIDENCE,),
        "alternatives": ("memory",),
        "next_step": "look",
    }
    return Finding(**values | changes)


def past_finding(rank: int, first_step: int) -> Finding:
    """One that is over, of a slow rank."""
    return a_finding(
        culprits=(Place(rank),),
        victims=(),
        first_step=first_step,
        last_step=99,
        severity="past",
        ongoing=False,
        title=f"Rank {rank} was slow from {first_step}",
    )


def test_json_gives_the_same_finding_back() -> None:
    finding = a_finding()
    plain = json.loads(json.dumps(finding.to_json()))
    assert Finding.from_json(plain) == finding
    assert plain["culprit_ranks"] == [5]
    assert plain["victim_ranks"] == [1, 4]
    without = replace(finding, cost=None, slowdown=None)
    assert Finding.from_json(json.loads(json.dumps(without.to_json()))) == without


def test_the_id_has_the_kind_the_ranks_and_the_step() -> None:
    assert a_finding().id == "slow_worker-0-5-8"
    assert a_finding(culprits=()).id == "slow_worker-0-job-8"
    many = tuple(Place(rank) for rank in range(100, 612))
    assert a_finding(culprits=many).id == "slow_worker-0-100_to_611_512ranks-8"
    assert a_finding(last_step=99, slowdown=2.0).id == a_finding().id  # it goes on, the link stays


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"kind": "Slow worker"}, "kind is 'Slow worker'"),
        ({"severity": "red"}, "severity is 'red'"),
        ({"confidence": "0.9"}, "confidence is '0.9'"),
        ({"last_step": 7}, "the last comes before the first"),
        ({"evidence": ()}, "needs a title, a text, evidence"),
        ({"title": ""}, "needs a title, a text, evidence"),
        ({"victims": (4, 5)}, "culprit and victim"),
        ({"ongoing": False}, "either ongoing or past"),
        ({"severity": "past"}, "either ongoing or past"),
    ],
)
def test_a_finding_checks_itself(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        a_finding(**changes)


def test_its_parts_check_themselves() -> None:
    with pytest.raises(ValueError, match="rank is -1"):
        Place(-1)
    with pytest.raises(ValueError, match="part of the step"):
        Cost(180.0, 160.0, 5, 8)
    with pytest.raises(ValueError, match="number nan"):
        replace(EVIDENCE, number=float("nan"))
    with pytest.raises(ValueError, match="needs a sentence"):
        replace(EVIDENCE, question="")
    with pytest.raises(ValueError, match="nothing checked and nothing missing"):
        Verdict("x")


def test_the_costliest_comes_first_after_what_is_urgent_without_a_known_cost() -> None:
    past = a_finding(severity="past", ongoing=False, first_step=1)
    small = a_finding(cost=Cost(1.0, 100.0, 5, 8), first_step=2)
    great = a_finding(severity="warning", cost=Cost(50.0, 100.0, 5, 8), first_step=3)
    unknown = a_finding(severity="warning", cost=None, first_step=4)
    urgent = a_finding(cost=None, first_step=5)
    diagnosis = Diagnosis(
        (Verdict("a", (past, small, unknown)), Verdict("b", (great, urgent), "all well"))
    )
    assert diagnosis.findings == (urgent, great, small, unknown, past)
    assert diagnosis.checked == ("all well",)
    assert diagnosis.judged


def test_a_diagnosis_without_verdicts_is_not_judged() -> None:
    diagnosis = Diagnosis((Verdict("a", not_enough=(NotEnoughData("a", "no step"),)),))
    assert not diagnosis.judged
    assert diagnosis.to_json() == {
        "findings": [],
        "checked": [],
        "set_aside": [],
        "judged": False,
        "not_enough": [{"detector": "a", "missing": "no step"}],
    }
