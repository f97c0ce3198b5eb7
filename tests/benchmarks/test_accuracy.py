"""The scorer of benchmarks/accuracy, its other tools' inputs, and one job from draw to verdict."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.accuracy import tables
from benchmarks.accuracy.cases import ANY_DOSE, HEALTHY, NATIVE, TRACE, Case, case_named, cases
from benchmarks.accuracy.judge import Outcome, judge, with_truth
from benchmarks.accuracy.outcomes import append, outcomes_in
from benchmarks.accuracy.rivals import rules
from benchmarks.accuracy.rivals.inputs import spans_of, write_kineto, write_sections
from benchmarks.accuracy.score import score
from ingest.imports.importer import open_any
from sample_traces.generate.labelled.labels import Label
from sample_traces.generate.labelled.step_truth import StepTruth


def planted(kind: str, ranks: tuple = (), stages: tuple = (), first: int = 8, **more: Any) -> Label:
    return Label(kind, ranks, stages, more.pop("hosts", ()), first, 30, **more)


def finding_of(kind: str, ranks: tuple = (), first: int = 8, last: int = 30, **more: Any) -> dict:
    return {"kind": kind, "ranks": list(ranks), "stages": [], "steps": [first, last], **more}


def test_the_right_kind_at_the_right_place() -> None:
    scored = score([planted("slow_worker", (3,))], [finding_of("slow_worker", (3,), first=9)])
    (match,) = scored.matches
    assert (match.is_located, match.onset_error, scored.false) == (True, 1, [])


@pytest.mark.parametrize(
    ("label", "finding", "is_located"),
    [
        (planted("slow_worker", (3,)), finding_of("slow_worker", (4,)), False),
        (planted("slow_stage", (), (1,)), finding_of("slow_stage", stages=[1]), True),
        (planted("slow_stage", (), (1,)), finding_of("slow_stage", (4, 5), stages=[1]), False),
        (planted("gc_pauses"), finding_of("gc_pauses"), True),
        (planted("gc_pauses"), finding_of("gc_pauses", (1,)), False),
        (
            planted("slow_host", (8, 9), hosts=("node0001",)),
            finding_of("slow_host", hosts=["node0001"]),
            True,
        ),
    ],
)
def test_places_are_exact(label: Label, finding: dict, is_located: bool) -> None:
    assert score([label], [finding]).matches[0].is_located is is_located


def test_misses_and_false_findings() -> None:
    scored = score([planted("slow_worker", (3,))], [finding_of("slow_link", (3, 7))])
    assert scored.matches[0].finding is None
    assert [finding["kind"] for finding in scored.false] == ["slow_link"]
    before = score(
        [planted("slow_worker", (3,), first=20)], [finding_of("slow_worker", (3,), 0, 9)]
    )
    assert (before.matches[0].finding, len(before.false)) == (None, 1)


def test_a_finding_reported_twice_is_not_false_and_another_rank_is() -> None:
    label = planted("slow_worker", (3,))
    twice = [finding_of("slow_worker", (3,), 8, 15), finding_of("slow_worker", (3,), 17, 30)]
    assert score([label], twice).false == []
    other = score([label], [*twice, finding_of("slow_worker", (5,))])
    assert [finding["ranks"] for finding in other.false] == [[5]]


def test_each_of_two_culprits_has_its_own_finding() -> None:
    labels = [planted("slow_worker", (3,)), planted("slow_worker", (5,))]
    scored = score(labels, [finding_of("slow_worker", (5,)), finding_of("slow_worker", (3,))])
    assert [match.is_located for match in scored.matches] == [True, True]


@pytest.mark.parametrize(("stage", "num_false"), [(1, 0), (0, 1)], ids=["its own", "innocent"])
def test_what_cannot_be_identified_is_neither_missed_nor_false(stage: int, num_false: int) -> None:
    label = planted("slow_stage", (), (1,), why_not="one rank per stage")
    finding = finding_of(
        "slow_worker", (stage,), culprits=[{"rank": stage, "coords": {"pp": stage}}]
    )
    scored = score([label], [finding, finding_of("gc_pauses")])
    assert (scored.matches, len(scored.false)) == ([], num_false)


def test_shares() -> None:
    outcomes = [
        Outcome(
            Case(NATIVE, "slow_worker", "loud", at, 1),
            labels=(planted("slow_worker", (3,)),),
            findings=findings,
        )
        for at, findings in enumerate(
            (
                [finding_of("slow_worker", (3,))],
                [finding_of("slow_worker", (4,), 20)],
                [],
                [finding_of("gc_pauses")],
            )
        )
    ]
    lines = tables.by_kind(outcomes, ("loud",))
    assert "| gc_pauses | 0 | 0 | 1 | 0.000 | - | 0.000 (0.00-0.88) | - | - |" in lines
    recall, located = "0.500 (0.15-0.85)", "0.250 (0.05-0.70) | 0.500"
    shares = f"1.000 | {recall} | 0.667 (0.26-0.92) | {located}"
    assert f"| slow_worker | 4 | 2 | 0 | {shares} |" in lines
    shares = f"0.667 | {recall} | 0.571 (0.21-0.87) | {located}"
    assert f"| **all** | 4 | 2 | 1 | {shares} |" in lines
    mistakes = [line.split()[0] for line in tables.mistakes(outcomes)]
    assert mistakes == ["PLACE", "MISSED", "MISSED", "UNTRUE"]


def test_missed_faults_are_counted_by_their_reason() -> None:
    late = (
        "Rank 3 comes late by 2.0 % of a step; a step counts from 3.0 % on, fully from twice that."
    )
    outcomes = [
        Outcome(
            Case(NATIVE, "slow_worker", dose, at, 1),
            labels=(planted("slow_worker", (3,)),),
            whys=[why],
        )
        for at, (dose, why) in enumerate((("loud", late), ("masked", late), ("masked", "so.")))
    ]
    assert tables.reasons(outcomes)[2:] == [
        "| longer by less than a step needs to count | 1 | 1 |",
        "| another | 0 | 1 |",
    ]


def test_findings_in_healthy_jobs_are_counted_by_time() -> None:
    outcomes = [
        Outcome(
            Case(NATIVE, HEALTHY, ANY_DOSE, at, 1),
            findings=[finding_of("gc_pauses")] * at,
            rank_hours=250.0,
            rank_steps=100,
        )
        for at in range(2)
    ]
    (line,) = tables.healthy(outcomes)
    assert line == (
        "2 healthy jobs, 500 rank-hours, 200 rank-steps: "
        "1 findings, true or not, 2.00 per 1,000 rank-hours."
    )
    (line,) = tables.healthy([Outcome(Case(NATIVE, HEALTHY, ANY_DOSE, 0, 1), rank_hours=3.0)])
    assert line.endswith(": 0 findings, true or not (too few hours for a rate).")


def test_cases_have_names_that_give_them_again() -> None:
    chosen = cases(7, 2, 4, ["slow_worker", "dead_rank", HEALTHY], [NATIVE, TRACE])
    assert len(chosen) == 2 * 3 + 2 + 4 + 2 * 3 + 1
    assert [case_named(case.name, 7) for case in chosen] == chosen
    with pytest.raises(ValueError, match="a name is like native-slow_worker-loud-3"):
        case_named("slow_worker", 7)


@pytest.mark.sampled
@pytest.mark.parametrize("schema", [NATIVE, TRACE])
def test_one_job_from_draw_to_verdict(schema: str) -> None:
    outcome = judge(Case(schema, "slow_worker", "loud", 0, 11))
    assert outcome.error == ""
    (match,) = score(outcome.labels, outcome.findings).matches
    assert match.is_located
    assert outcome.true_S == pytest.approx(outcome.whatif_S, rel=0.03)
    assert outcome.slowdown > 1.05


def test_a_crash_is_a_result(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Case, "drawn", lambda case: 1 / 0)
    assert judge(Case(NATIVE, "gc_pauses", "loud", 0, 1)).error.startswith("ZeroDivisionError")


def test_the_published_rules() -> None:
    numbers = {"S": 1.5, "M_W": 0.9, "M_W_ranks": [4], "M_S": 0.0, "S_stage": {"0": 1, "1": 1}}
    nowhere = Path("none")
    assert rules.findings_of({**numbers, "S": 1.05}, nowhere) == []
    (slow,) = rules.findings_of(numbers, nowhere)
    assert (slow["kind"], slow["ranks"]) == ("slow_worker", [4])
    last = rules.findings_of({**numbers, "M_W": 0.1, "M_S": 0.8}, nowhere)
    assert [(f["kind"], f["stages"]) for f in last] == [("slow_stage", [1])]


def test_the_rules_see_uneven_sequences_and_links(tmp_path: Path) -> None:
    numbers = {"S": 1.5, "M_W": 0.1, "M_S": 0.1, "S_t": {"forward-pp-comm": 1.4, "optimizer": 1.0}}
    for kind in ("sequence_imbalance", "slow_link"):
        (tmp_path / kind).mkdir()
        trace, _ = Case(TRACE, kind, "loud", 1, 5).drawn().write(tmp_path / kind)
        assert [finding["kind"] for finding in rules.findings_of(numbers, trace)] == [kind]


def test_what_other_tools_are_given(tmp_path: Path) -> None:
    drawn = Case(NATIVE, "slow_worker", "loud", 0, 11).drawn()
    run, _ = drawn.write(tmp_path)
    spans = spans_of(run)
    write_sections(spans, tmp_path / "sections.json")
    answer = json.loads((tmp_path / "sections.json").read_text())
    compute = answer["kernels"]["compute"]
    assert (len(compute), len(compute[0])) == (drawn.job.num_ranks, drawn.job.num_steps)
    (rank,) = drawn.labels[0].ranks
    assert max(range(len(compute)), key=lambda r: compute[r][drawn.labels[0].first_step]) == rank
    write_kineto(spans, tmp_path / "kineto", drawn.labels[0].last_step)
    with open_any(tmp_path / "kineto") as profile:
        assert profile.info["source"] == "kineto"
        assert len(profile.ask("rank_list").to_pylist()) == drawn.job.num_ranks


@pytest.mark.parametrize("kind", ["jit_spikes", "step_regression"])
def test_outcomes_are_read_as_they_were_written(tmp_path: Path, kind: str) -> None:
    """With what the simulation says of a finding; files of earlier versions have other fields."""
    with_S = np.full(100, 10.0)
    with_S[[20, 40, 60]] = 15.0
    sentence = "3 of 100 steps (20, 40, 60; one in 20) take 5 ms longer than those around them."
    said = finding_of(kind, (), 20, 80, evidence=[{"sentence": sentence}])
    found = with_truth(said, StepTruth(with_S, with_S))
    outcome = Outcome(
        Case(NATIVE, kind, "loud", 0, 1), labels=(planted(kind),), findings=[found], whys=["so."]
    )
    file = tmp_path / "outcomes.jsonl"
    append(outcome, file)
    line = file.read_text(encoding="utf-8")
    file.write_text(line.replace('"whys"', '"reasons": [], "whys"'), encoding="utf-8")
    assert list(outcomes_in(file)) == [outcome]
    assert found["steps_are_longer"] == (kind == "jit_spikes")
