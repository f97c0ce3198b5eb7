"""Kernels captured on demand: every rank of a real job, by way of a real server."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from app.live.connected_rank import ConnectedRank, Hello
from app.live.first_step import AHEAD_STEPS, with_first_step
from app.settings import Settings
from ingest.imports.importer import import_paths
from tests.app.server.ranks import JOB_TOKEN, post, state
from tests.app.server.served import Served, served
from tests.forks import Fork, fork, succeeded
from tests.trace_hooks.processes import REPO, environment, rows
from tests.waiting import wait_until

RANKS, STEPS = 4, 3
START_S = 90.0
CAPTURE = {"name": "capture_kernels", "args": {"steps": STEPS, "from": None}}
SOURCES = {"TRACE_HOOKS_SOURCES": "modules,optimizer,kernel_capture"}


def begin_job(folder: Path, *more: str, **environ: str) -> list[Fork]:
    script = REPO / "tests/trace_hooks/sources/profiling/kernel_capture_job.py"
    arguments = (str(RANKS), str(folder / "store"), str(folder / "stop"), *more)
    own = environment(folder, **SOURCES, **environ)
    return [
        fork(folder / f"rank{rank}", [str(script), str(rank), *arguments], own, folder)
        for rank in range(RANKS)
    ]


def losses_of(job: list[Fork]) -> list[list[float]]:
    return [json.loads(one.out.splitlines()[-1]) for one in succeeded(job)]


class Captured:
    """What a job of 4 ranks with one capture has left."""

    def __init__(self, folder: Path, answer: dict[str, Any], late: dict[str, Any]) -> None:
        self.folder, self.answer, self.late = folder, answer, late
        self.losses: list[list[float]] = []
        self.spans = [row for row in rows(folder, "spans") if row["mode"] == "imported"]


def marks(folder: Path) -> list[dict[str, Any]]:
    return [row for row in rows(folder, "marks") if row["kind"] == "kernel_capture"]


@pytest.fixture(scope="module")
def captured(tmp_path_factory: pytest.TempPathFactory) -> Captured:
    folder = tmp_path_factory.mktemp("captured")
    runs = folder / "runs"
    runs.mkdir()
    with served(runs, Settings(port=0, job_token=JOB_TOKEN)) as server:
        address = f"ws://{server.address}"
        job = begin_job(folder, TRACE_HOOKS_SERVER=address, TRACE_HOOKS_TOKEN=JOB_TOKEN)
        try:
            _wait_for_pace(server)
            status, answer = post(server, "job", CAPTURE, "/api/command")
            assert status == 200, answer
            wait_until(lambda: len(marks(folder)) >= 2 * RANKS, START_S)
            late = {"name": "capture_kernels", "args": {"steps": 1, "from": 1}, "ranks": [2]}
            _, refused = post(server, "job", late, "/api/command")
            (folder / "stop").touch()
            losses = losses_of(job)
        finally:
            for one in job:
                one.process.kill()
    found = Captured(folder, answer, refused)
    found.losses = losses
    return found


def _wait_for_pace(server: Served) -> None:
    """Until the server knows how fast all ranks go."""
    live = lambda: state(server, "job")  # noqa: E731
    wait_until(lambda: live().get("connected") == RANKS, START_S)
    wait_until(lambda: (live().get("step") or 0) > 0, START_S)
    first = live()["step"]
    wait_until(lambda: live()["step"] > first, START_S)


@pytest.mark.long
@pytest.mark.torch
def test_all_ranks_begin_with_the_same_step(captured: Captured) -> None:
    assert captured.answer["silent"] == []
    assert [ack["ok"] for ack in captured.answer["acks"]] == [True] * RANKS
    by_rank = {rank: set[int]() for rank in range(RANKS)}
    for span in captured.spans:
        by_rank[span["rank"]].add(span["step"])
    first = min(by_rank[0])
    assert by_rank == {rank: {first, first + 1, first + 2} for rank in range(RANKS)}


@pytest.mark.long
@pytest.mark.torch
def test_operators_lie_within_their_steps(captured: Captured) -> None:
    steps = {(row["rank"], row["step"]): row for row in rows(captured.folder, "steps")}
    names = set()
    for span in captured.spans:
        step = steps[span["rank"], span["step"]]
        end_ns = step["start_ns"] + step["dur_ns"]
        if span["name"] == "aten::addmm":  # what the pause between steps does is in none
            assert step["start_ns"] <= span["ts_ns"] <= span["ts_ns"] + span["dur_ns"] <= end_ns
        names.add(span["name"])
        assert (span["kind"], span["track"][:4]) == ("host", "ops ")
    assert {"aten::addmm", "aten::embedding", "aten::_log_softmax"} <= names
    assert max(span["depth"] for span in captured.spans) > 1
    forwards = [row for row in rows(captured.folder, "spans") if row["kind"] == "forward"]
    inside = [forward for forward in forwards if forward["step"] == captured.spans[0]["step"]]
    products = [one for one in captured.spans if one["name"] == "aten::addmm"]
    assert any(
        span["rank"] == outer["rank"]
        and outer["ts_ns"] <= span["ts_ns"]
        and span["ts_ns"] + span["dur_ns"] <= outer["ts_ns"] + outer["dur_ns"]
        for span in products
        for outer in inside
    )


@pytest.mark.long
@pytest.mark.torch
def test_training_is_the_same_with_and_without(captured: Captured, tmp_path: Path) -> None:
    num_steps = len(captured.losses[0])
    plain = losses_of(begin_job(tmp_path, str(num_steps), TRACE_HOOKS="0"))
    assert plain == captured.losses


@pytest.mark.torch
def test_what_it_cost_and_the_profilers_own_trace_are_kept(
    captured: Captured, tmp_path: Path
) -> None:
    answer = [json.loads(mark["args"]) for mark in marks(captured.folder) if mark["args"]]
    assert [one["steps"] for one in answer] == [STEPS] * RANKS
    assert all(one["step_ms"] > 0 and one["start_and_stop_ms"] > 0 for one in answer)
    kept = sorted((captured.folder / "runs" / "job" / "kernels").iterdir())
    assert [path.name[:15] for path in kept] == [f"0000-rank-{n:05d}" for n in range(RANKS)]
    import_paths(kept, tmp_path / "runs")
    steps = {(row["rank"], row["step"]) for row in rows(tmp_path, "steps")}
    assert steps == {(span["rank"], span["step"]) for span in captured.spans}


@pytest.mark.torch
def test_a_rank_that_is_past_the_step_refuses(captured: Captured) -> None:
    (ack,) = captured.late["acks"]
    assert (ack["rank"], ack["ok"]) == (2, False)
    assert "already; ask for a later one" in ack["text"]


def test_the_first_step_is_beyond_what_any_rank_may_have_begun() -> None:
    ranks = [ConnectedRank(Hello("a", 0, rank, 2)) for rank in range(2)]
    ranks[0].step, ranks[1].step, ranks[1].steps_per_s = 10, 12, 2.0
    assert with_first_step({"steps": 2}, ranks) == {"steps": 2, "from": 12 + 6 + AHEAD_STEPS}
    assert with_first_step({"steps": 2, "from": 40}, ranks)["from"] == 40


@pytest.mark.parametrize(
    "args",
    [
        None,
        [],
        {"steps": 0},
        {"steps": 51},
        {"steps": True},
        {"steps": 1e9},
        {"steps": 1, "from": -1},
        {"steps": 1, "from": "__import__('os')"},
        {"steps": 1, "code": "x"},
    ],
)
def test_what_is_no_request_is_refused_in_a_sentence(args: object) -> None:
    with pytest.raises(ValueError, match="capture_kernels"):
        with_first_step(args, [])
