"""Reasons of missed faults: a sentence with numbers for every kind, and the one that decided."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from app.analysis.diagnosis import all_steps, tables_of
from benchmarks.accuracy.cases import NATIVE, Case
from benchmarks.accuracy.judge import judge
from benchmarks.accuracy.why_missed import Miss, why_missed, whys
from ingest.run import Run, open_run
from sample_traces.generate.faults import KINDS, OF_THE_MODEL, SyntheticFault
from sample_traces.generate.job import SyntheticJob
from sample_traces.generate.labelled.labels import Label
from sample_traces.generate.tables.write import generate

RANKS, STEPS, FROM = 8, 40, 15


@pytest.fixture(scope="module")
def healthy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    folder = tmp_path_factory.mktemp("runs") / "healthy"
    generate(SyntheticJob(RANKS, 2, 1, STEPS), folder)
    with open_run(folder) as run:
        yield run


def label_of(kind: str, planted: str = "", first: int = FROM) -> Label:
    """A fault that was not planted: all of its kind is missed."""
    target = "rank" if planted else KINDS[kind].target
    ranks = {"rank": (2,), "host": tuple(range(4)), "stage": (), "job": ()}[target]
    stages = (1,) if target == "stage" else ()
    return Label(kind, ranks, stages, (), first, STEPS - 1, job_ranks=RANKS, planted=planted)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind not in OF_THE_MODEL])
@pytest.mark.parametrize("first", [0, FROM])
def test_every_kind_has_a_reason(healthy: Run, kind: str, first: int) -> None:
    tables = tables_of(healthy, 0, all_steps(healthy))
    why = why_missed(Miss(label_of(kind, first=first), tables, 0))
    assert why.endswith(".")
    assert "nan" not in why


@pytest.mark.parametrize("planted", ["late_in_data", "late_in_compute", "late_elsewhere"])
def test_a_rank_that_is_not_late_says_by_how_much(healthy: Run, planted: str) -> None:
    tables = tables_of(healthy, 0, all_steps(healthy))
    why = why_missed(Miss(label_of("slow_worker", planted), tables, 0))
    assert why.startswith("Rank 2 ")
    assert "votes begin at 3.0 %" in why


def test_what_was_found_needs_no_reason(healthy: Run) -> None:
    label = label_of("slow_worker")
    found = {"kind": "slow_worker", "ranks": [2], "steps": [FROM, STEPS - 1]}
    (why,) = whys(healthy, [label], [found])
    assert why == ""
    (why,) = whys(healthy, [label], [])
    assert "Rank 2 computes" in why


def test_an_operation_whose_rise_is_too_small_is_told_with_its_border(tmp_path: Path) -> None:
    fault = SyntheticFault("step_regression", None, 1.02, FROM)
    generate(SyntheticJob(RANKS, 2, 1, STEPS, faults=(fault,)), tmp_path / "run")
    with open_run(tmp_path / "run") as run:
        (why,) = whys(run, [label_of("step_regression")], [])
    assert "steps before; votes begin at 5.0 %." in why


def test_outcomes_hold_a_reason_for_each_miss_alone() -> None:
    outcome = judge(Case(NATIVE, "slow_checkpoint", "masked", 0, 11))
    assert len(outcome.whys) == len(outcome.labels)
    found = any(f["kind"] == "slow_checkpoint" for f in outcome.findings)
    assert bool(outcome.whys[0]) != found
