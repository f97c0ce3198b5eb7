"""The job with the spans of every third step: what is known of the others, and that it learns the
same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from app.views.whatif.analysis import Answer, whatif_or_refusal
from ingest.run import Run, open_run

pytestmark = pytest.mark.torch

TINY = ("--batch", "2", "--seq", "16", "--width", "32", "--heads", "4")
SIZES = {"pp": 2, "dp": 1, "tp": 1, "num_steps": 5, "num_microbatches": 2, "num_layers": 4}
EVERY = 3


@pytest.fixture(scope="module")
def whole(train_3d: Callable[..., Any], tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The job with all spans."""
    return train_3d(tmp_path_factory.mktemp("whole"), "job", **SIZES, options=TINY)


@pytest.fixture(scope="module")
def sampled(train_3d: Callable[..., Any], tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The job with the spans of every third step."""
    environ = {"TRACE_HOOKS_SPANS_EVERY": str(EVERY)}
    folder = tmp_path_factory.mktemp("sampled")
    return train_3d(folder, "job", **SIZES, options=TINY, environ=environ)


@pytest.fixture(scope="module")
def some(sampled: Any) -> Iterator[Run]:
    with open_run(sampled.folder) as run:
        yield run


@pytest.fixture(scope="module")
def all_spans(whole: Any) -> Iterator[Run]:
    with open_run(whole.folder) as run:
        yield run


def counted(run: Run) -> dict[tuple[int, int, str], int]:
    """How many spans of each kind began in the steps of each rank, by the rollups; collections
    come when they come.
    """
    rows = run.sql(
        "SELECT rank, step, kind, num_spans FROM kind_rollup WHERE step >= 0"
    ).to_pylist()
    return {(r["rank"], r["step"], r["kind"]): r["num_spans"] for r in rows if r["kind"] != "gc"}


@pytest.mark.long
def test_the_job_learns_the_same_and_does_as_much(all_spans: Run, some: Run) -> None:
    losses = [
        run.sql("SELECT rank, step, loss, grad_norm FROM steps ORDER BY rank, step").to_pylist()
        for run in (all_spans, some)
    ]
    assert losses[0] == losses[1]
    assert counted(some) == counted(all_spans)


@pytest.mark.long
def test_all_ranks_publish_the_spans_of_the_same_steps(some: Run) -> None:
    assert some.sql("SELECT * FROM marks WHERE kind = 'hook_error'").num_rows == 0
    found = some.sql("SELECT DISTINCT rank, step FROM spans WHERE kind = 'forward'").to_pylist()
    assert {(row["rank"], row["step"]) for row in found} == {(r, s) for r in (0, 1) for s in (0, 3)}


def test_what_the_other_steps_went_to_is_known_as_sums(some: Run) -> None:
    assert {(rank, step) for rank, step, _ in counted(some)} == {
        (rank, step) for rank in (0, 1) for step in range(5)
    }
    for row in some.sql("SELECT * FROM step_rollup WHERE step >= 0").to_pylist():
        assert 0 < row["compute_ns"] <= row["covered_ns"] <= row["window_ns"]


def test_no_rank_lacks_rows_where_steps_are_summed_up(some: Run) -> None:
    assert some.ask("data_gaps").num_rows == 0
    (group,) = some.ask("outstanding").to_pylist()
    assert (group["num_open"], group["behind"], group["ahead"]) == (0, None, None)


def test_questions_about_single_spans_are_answered_of_the_steps_that_have_them(some: Run) -> None:
    for question in ("op_times", "microbatch_work", "whatif_spans"):
        assert set(some.ask(question)["step"].to_pylist()) == {0, 3}, question
    answer = whatif_or_refusal(some)
    assert isinstance(answer, Answer), answer
    assert answer.prepared.ops.step_S.tolist() == [0, 3]
    assert "Steps whose spans were not recorded one by one are left out." in answer.notes


def test_a_replay_of_a_step_without_its_spans_is_refused_with_the_reason(some: Run) -> None:
    refusal = whatif_or_refusal(some, steps=(4, 4))
    assert not isinstance(refusal, Answer)
    assert refusal.reason == (
        "step 4 is not recorded span by span and finished on all ranks, so there is nothing to "
        "replay: TRACE_HOOKS_SPANS_EVERY left the spans out"
    )
