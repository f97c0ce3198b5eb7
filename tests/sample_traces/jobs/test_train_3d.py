"""The real job with hooks on and off, with a source missing, under another schedule, and wrong."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from ingest.run import open_run
from sample_traces.jobs.schedules import stage_indices
from sample_traces.jobs.train_3d import parse_options

pytestmark = pytest.mark.torch

TINY = ("--batch", "1", "--seq", "16", "--width", "32", "--heads", "2")
FOUR_RANKS = {"pp": 2, "dp": 1, "tp": 2, "num_steps": 6, "num_microbatches": 4, "num_layers": 4}
ONE_RANK = {"pp": 1, "dp": 1, "tp": 1, "num_steps": 4, "num_microbatches": 2, "num_layers": 1}
STATISTICS = {"TRACE_HOOKS_STATISTICS": "1"}

Run = Callable[..., Any]


@pytest.fixture(scope="module")
def four_ranks(train_3d: Run, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Runs the job under a schedule, once for each way of watching it."""

    @cache
    def run(schedule: str, **environ: str) -> Any:
        options = (*TINY, "--schedule", schedule)
        folder = tmp_path_factory.mktemp(schedule)
        return train_3d(folder, "job", **FOUR_RANKS, options=options, environ=environ)

    return run


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("schedule", "environ"), [("1f1b", {}), ("1f1b", STATISTICS), ("zbv", STATISTICS)]
)
def test_losses_are_bitwise_equal_with_hooks_on_and_off(
    four_ranks: Run, schedule: str, environ: dict[str, str]
) -> None:
    on, off = four_ranks(schedule, **environ), four_ranks(schedule, TRACE_HOOKS="0")
    assert not off.folder.exists()
    with open_run(on.folder) as run:
        assert run.ask("steps").num_rows == 6
        watched = {row["step"] for row in run.ask("tensor_health").to_pylist()}
        assert watched == (set(range(6)) if environ else set())
        assert run.sql("SELECT * FROM marks WHERE kind = 'hook_error'").num_rows == 0
    assert [row["step"] for row in on.losses] == list(range(6))
    assert on.losses == off.losses  # JSON keeps every bit of a float
    assert on.losses[-1]["loss"] != on.losses[0]["loss"]


@pytest.mark.long
def test_a_missing_source_lowers_coverage_by_its_share(train_3d: Run, tmp_path: Path) -> None:
    """The loader sleeps a second a step, so its share of the time hardly depends on the machine."""
    options = (*TINY, "--fault", "slow-loader,ms=1000")
    on = train_3d(tmp_path, "on", **ONE_RANK, options=options)
    off = train_3d(
        tmp_path, "off", **ONE_RANK, options=options, environ={"TRACE_HOOKS_SOURCES": "-data"}
    )
    with_it, without_it = (
        open_run(job.folder).ask("coverage", step_min=1).to_pylist()[0]["covered_ratio"]
        for job in (on, off)
    )
    windows = open_run(off.folder).ask("step_times", step_min=1).to_pylist()
    share = 1_000 * len(windows) / sum(step["step_ms"] for step in windows)
    assert share > 0.5
    assert with_it - without_it == pytest.approx(share, abs=0.07)


@pytest.mark.long
def test_zero_bubble_splits_the_backward(four_ranks: Run) -> None:
    rows = open_run(four_ranks("zbv", **STATISTICS).folder).sql(
        "SELECT rank, step, chunk, microbatch, name FROM spans WHERE depth = 0"
        " AND microbatch >= 0 AND kind IN ('forward', 'backward', 'wgrad') AND name <> 'loss'"
    )
    forwards: Counter[tuple[int, ...]] = Counter()
    backwards: Counter[tuple[int, ...]] = Counter()
    for row in rows.to_pylist():
        cell = (row["rank"], row["step"], row["chunk"], row["microbatch"])
        forwards[cell] += row["name"] == "F"
        # a backward is one action B, or I for the input and W for the weights
        backwards[cell] += {"B": 2, "I": 1, "W": 1}.get(row["name"], 0)
    cells = {
        (rank, step, stage, microbatch)
        for rank in range(4)
        for step in range(6)
        for stage in stage_indices("zbv", rank // 2, 2)
        for microbatch in range(4)
    }
    assert forwards == dict.fromkeys(cells, 1)
    assert backwards == dict.fromkeys(cells, 2)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--nproc", "4"], "pp 2 x dp 2 x tp 2 is 8 ranks, not 4: give --nproc 8"),
        (["--nproc", "8", "--fault", "slow-rank=8"], "names rank 8 of 8"),
        (["--nproc", "8", "--fault", "slow"], "unknown fault 'slow'"),
        (["--nproc", "8", "--width", "100"], "width 100 does not split into 8 heads"),
    ],
)
def test_wrong_options_end_with_a_sentence(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as end:
        parse_options(arguments)
    assert end.value.code == 2
    assert message in capsys.readouterr().err
