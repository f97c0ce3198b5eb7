"""Reasons of missed faults: a sentence with numbers for every kind, and the one that decided."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
import pytest

from app.analysis.diagnosis import all_steps, tables_of
from benchmarks.accuracy.cases import NATIVE, Case
from benchmarks.accuracy.judge import judge
from benchmarks.accuracy.score import score
from benchmarks.accuracy.why_missed import why_missed, whys
from benchmarks.accuracy.why_missed.miss import Miss
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


@pytest.fixture(scope="module")
def tables(healthy: Run) -> dict[str, pa.Table]:
    """What the diagnosis of the healthy job reads."""
    return tables_of(healthy, 0, all_steps(healthy))


def label_of(kind: str, planted: str = "", first: int = FROM, rank: int = 2) -> Label:
    """A fault that was not planted: all of its kind is missed."""
    target = "rank" if planted else KINDS[kind].target
    ranks = {"rank": (rank,), "host": tuple(range(4)), "stage": (), "job": ()}[target]
    stages = (1,) if target == "stage" else ()
    return Label(kind, ranks, stages, (), first, STEPS - 1, job_ranks=RANKS, planted=planted)


def why(run: Run, label: Label, findings: Sequence[dict[str, Any]] = ()) -> str:
    (text,) = whys(run, [label], findings)
    return text


def reason(tables: dict[str, pa.Table], label: Label) -> str:
    return why_missed(Miss(label, tables, 0))


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind not in OF_THE_MODEL])
@pytest.mark.parametrize("first", [0, FROM])
def test_every_kind_has_a_reason(tables: dict[str, pa.Table], kind: str, first: int) -> None:
    text = reason(tables, label_of(kind, first=first))
    assert text.endswith(".")
    assert not any(word in text for word in ("nan", "inf", "  "))


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("slow_op", "a step counts from 3.0 % on"),
        ("step_regression", "a step counts from 5.0 % on"),
        ("slow_worker", "Rank 2 takes"),
        ("slow_stage", "Its quickest rank computes"),
        ("data_loader", "waits least for data"),
        ("launch_skew", "who starts last"),
        ("jit_spikes", "3 steps are longer than those around them, the least by -"),
        ("host_contention", "for standing still; a step counts from"),
    ],
)
def test_the_number_is_that_of_the_kind(tables: dict[str, pa.Table], kind: str, words: str) -> None:
    assert words in reason(tables, label_of(kind))


@pytest.mark.parametrize(
    ("planted", "words"),
    [
        ("late_in_data", "for its wait for data; a step counts from"),
        ("late_in_compute", "time than its peers"),
        ("late_elsewhere", "for standing still; a step counts from"),
    ],
)
def test_a_rank_that_is_not_late_says_by_how_much(
    tables: dict[str, pa.Table], planted: str, words: str
) -> None:
    text = reason(tables, label_of("slow_worker", planted))
    assert text.startswith("Rank 2 ")
    assert words in text


def test_what_was_found_needs_no_reason(healthy: Run) -> None:
    label = label_of("slow_worker")
    found = {"kind": "slow_worker", "ranks": [2], "steps": [FROM, STEPS - 1]}
    assert why(healthy, label, [found]) == ""
    assert "Rank 2 takes" in why(healthy, label)


def test_a_rank_that_was_not_recorded_is_told_so(healthy: Run) -> None:
    assert "no compute in these steps" in why(healthy, label_of("slow_worker", rank=99))


@pytest.fixture(scope="module")
def spiking(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    """Restarted: its steps count from 8, and every tenth from then on is long."""
    folder = tmp_path_factory.mktemp("runs") / "spiking"
    faults = (SyntheticFault("jit_spikes", None, 100.0, 0),)
    generate(SyntheticJob(RANKS, 2, 1, STEPS, faults=faults, resumed_at=8), folder)
    with open_run(folder) as run:
        yield run


def test_the_long_steps_of_a_restarted_job_are_those_of_the_fault(spiking: Run) -> None:
    tables = tables_of(spiking, 0, all_steps(spiking))
    given_to_another = {"kind": "jit_spikes", "ranks": [], "steps": [8, STEPS - 1]}
    text = why_missed(Miss(label_of("jit_spikes", first=8), tables, 0, [given_to_another]))
    assert "3 steps are longer" in text
    assert "the least by -" not in text


def test_a_finding_that_the_diagnosis_dropped_is_told(spiking: Run) -> None:
    text = why(spiking, label_of("jit_spikes", first=8))
    assert text.startswith("jit_spikes found “One step in 10 is long”, which was merged")


def test_outcomes_hold_a_reason_for_each_miss_alone() -> None:
    outcome = judge(Case(NATIVE, "slow_checkpoint", "masked", 0, 11))
    (match,) = score(outcome.labels, outcome.findings).matches
    assert (outcome.whys == [""]) == (match.finding is not None)
