"""benchmarks/frameworks: what its judge takes for wrong, and one real job of DDP."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from benchmarks.frameworks.__main__ import measured, summary
from benchmarks.frameworks.cases import CASES, JOBS, Case
from benchmarks.frameworks.judge import problems
from benchmarks.frameworks.matrix import BEGIN, END, matrix
from benchmarks.frameworks.running import Ran
from tests.folders import REPO

CASE = Case("x", "X", "x.py", (), 2, {"dp": 2}, ("torch",), 1, 16, first_step=1)


def ended(code: int = 0, weights: str = "aa", losses: tuple[float, ...] = (2.0, 1.0)) -> Ran:
    exact = {str(step): loss.hex() for step, loss in enumerate(losses, start=1)}
    reports = {rank: {"rank": rank, "losses": exact, "weights": weights} for rank in range(2)}
    return Ran(code, reports, [], "last words")


def fact(**changed: Any) -> dict[str, Any]:
    right = {
        "ranks": [0, 1],
        "world_sizes": [2],
        "layout": {"dp": 2},
        "steps": {0: [1, 2], 1: [1, 2]},
        "losses": {f"{rank}:{step}": 3.0 - step for rank in (0, 1) for step in (1, 2)},
        "tokens": [16.0],
        "microbatches": [1],
        "coverage": 0.95,
        "unseen": [("forward to backward", 0.02)],
        "step_ms": 40.0,
        "cost_ms": 1.25,
        "dropped": 0,
        "errors": {},
    }
    return right | changed


def test_a_job_that_is_as_it_should_be_has_no_problems() -> None:
    assert problems(CASE, "lines", ended(), ended(), [fact()], 2) == []


@pytest.mark.parametrize(
    ("job", "recorded", "sentence"),
    [
        (ended(code=1), fact(), "exit code 1 instead of 0: last words"),
        (ended(weights="ab"), fact(), "losses or weights of rank 0"),
        (ended(losses=(2.0, 1.0000001)), fact(), "losses or weights of rank 1"),
        (ended(), fact(ranks=[0]), "ranks [0] of [2]"),
        (ended(), fact(world_sizes=[1]), "of [1] instead of 2"),
        (ended(), fact(steps={0: [1, 2], 1: [0, 1]}), "rank 1 has 2 steps [0, 1]"),
        (ended(), fact(steps={0: [1, 2], 1: [1]}), "rank 1 has 1 steps"),
        (ended(), fact(layout=None), "layout None instead of {'dp': 2}"),
        (ended(), fact(microbatches=[1, 2]), "micro-batches [1, 2] instead of 1"),
        (ended(), fact(tokens=[]), "tokens [] instead of 16"),
        (ended(), fact(losses={}), "no loss is recorded"),
        (ended(), fact(losses={"0:1": 2.0}), "1 losses of 4"),
        (ended(), fact(losses={"0:1": 2.1}), "1 losses are not the job's: ['0:1']"),
        (ended(), fact(losses={"0:7": 2.0}), "1 losses are not the job's: ['0:7']"),
        (ended(), fact(errors={"hf.step": 3}), "errors in hooks: {'hf.step': 3}"),
        (ended(), fact(dropped=5), "5 rows dropped"),
    ],
)
def test_each_difference_is_a_problem(job: Ran, recorded: dict[str, Any], sentence: str) -> None:
    found = problems(CASE, "lines", ended(), job, [recorded], 2)
    assert any(sentence in text for text in found), found


def test_two_runs_of_one_job_are_a_problem() -> None:
    found = problems(CASE, "lines", ended(), ended(), [fact(), fact()], 2)
    assert found == ["2 runs instead of one"]


def test_without_the_lines_steps_count_from_0_and_losses_need_not_be_known() -> None:
    recorded = fact(steps={0: [0, 1], 1: [0, 1]}, losses={})
    assert problems(CASE, "hooks", ended(), ended(), [recorded], 2) == []


def test_the_matrix_has_a_line_for_each_way_and_every_problem() -> None:
    recorded = summary(fact())
    row = {"versions": {"torch": "2"}, "hooks": recorded, "lines": recorded, "problems": ["odd"]}
    text = matrix([row | {"case": "ddp"}])
    assert text.count("| torch DDP | torch 2 | 2 |") == 2
    assert "| 95.0% | forward to backward 2.0% | 1.2 of 40 ms |" in text
    assert "- torch DDP, odd" in text
    assert "differs" in matrix([row | {"case": "ddp", "problems": []}])


def test_every_case_has_its_job_and_the_page_a_place_for_the_matrix() -> None:
    assert all((JOBS / case.script).exists() for case in CASES)
    assert len({case.name for case in CASES}) == len(CASES)
    page = (REPO / "docs" / "frameworks.md").read_text()
    assert page.index(BEGIN) < page.index(END)


@pytest.mark.long
@pytest.mark.torch
def test_a_job_of_ddp_is_recorded_as_it_is_and_computes_the_same(tmp_path: Path) -> None:
    (case,) = (case for case in CASES if case.name == "ddp")
    row = measured(case, Path(sys.executable), steps=6, ways=("lines",))
    assert row["problems"] == []
    assert row["lines"]["losses"] == 2 * 6
