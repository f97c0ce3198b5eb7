"""Micro-batches that take turns and leave a side idle, on answers made by hand."""

from __future__ import annotations

from typing import Any

import pytest

from diagnosis.detectors.ping_pong_starved import detect
from diagnosis.findings import Finding, Verdict
from tests.diagnosis.experts.test_measured import times

APART = ({"expert_ms": None, "stage": None}, {"attention_ms": None, "stage": None})


def judged(*rows: dict[str, Any], **of_all: Any) -> Verdict | None:
    every = [{"layers": 32, "attention_ms": 1.0, "expert_ms": 1.0, **of_all, **row} for row in rows]
    return detect({"expert_times": times(*every)}, 0)


def found(*rows: dict[str, Any], **of_all: Any) -> Finding:
    verdict = judged(*rows, **of_all)
    assert verdict is not None
    (finding,) = verdict.findings
    return finding


def test_too_few_micro_batches() -> None:
    finding = found(*APART, transfer_ms=0.4, micro_batches=2)
    assert finding.kind == "ping_pong_starved"
    assert finding.next_step.startswith("Use 3 micro-batches of this size (a larger batch), or")
    assert finding.title == "2 micro-batches are too few to keep ranks busy"
    assert finding.text == (
        "Attention idles for 29% and experts for 29% of a pass in steps 3 to 9, with 2 "
        "micro-batches. 3 micro-batches of this size would be enough, and each would take 28% less "
        "time."
    )


def test_unequal_sides() -> None:
    finding = found(*APART, transfer_ms=0.4, micro_batches=3, expert_ms=0.7)
    assert finding.title == "Experts idle while attention computes"
    assert "experts for 31% of a pass" in finding.text
    assert finding.next_step == "Use more ranks for attention, or fewer for experts."


def test_training_whose_all_to_alls_are_too_long_for_two_micro_batches() -> None:
    finding = found({}, {}, {"stage": 1}, transfer_ms=1.6, micro_batches=2)
    assert finding.title == "2 micro-batches of stages 0 and 1 are too few to keep ranks busy"
    assert "Ranks compute nothing for" in finding.text
    assert finding.stages == (0, 1)


@pytest.mark.parametrize(
    ("rows", "of_all"),
    [
        (APART, {"transfer_ms": 0.4, "micro_batches": 3}),
        (APART, {"transfer_ms": 0.4, "micro_batches": 3, "expert_ms": 0.9}),
        (({}, {}), {"transfer_ms": 0.5, "micro_batches": 2}),
        (({}, {}), {"transfer_ms": 9.0, "micro_batches": 2}),  # no number of them hides that
    ],
)
def test_busy_sides(rows, of_all) -> None:
    verdict = judged(*rows, **of_all)
    assert verdict is not None
    assert verdict.findings == ()
    assert verdict.checked == "Micro-batches that take turns keep attention and experts busy."


def test_nothing_to_say_where_micro_batches_do_not_take_turns() -> None:
    assert judged({}, {}, transfer_ms=0.4, micro_batches=1) is None
    assert judged() is None


def test_too_few_steps() -> None:
    verdict = judged(*APART, transfer_ms=0.4, micro_batches=2, first_step=9)
    assert verdict is not None
    assert verdict.not_enough
    assert not verdict.findings
