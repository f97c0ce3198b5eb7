"""The routes of start-up and goodput, in process."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from app.runs.hub import Hub
from app.server import make_app
from app.settings import Settings
from app.views.efficiency.goodput import Goodput, goodput_of
from ingest.run import open_run
from tests.app.server.asgi import Client
from tests.runs_builder import T0, RunBuilder
from tests.startup_runs import interrupted_run, phases, started_run

END = {"ts_ns": T0 + 10**9, "status": "finished", "error": None}


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    folder = tmp_path_factory.mktemp("goodput")
    ranks = {rank: phases(waits=6) for rank in range(40)}
    ranks[7] = phases("restore", 6, what="<b>load</b> at a.py:3")
    started_run(folder / "slow", ranks)
    starting = {0: phases("restore", 30), 1: phases()}
    started_run(folder / "starting", starting, num_steps=0)
    interrupted_run(folder / "interrupted")
    RunBuilder(folder / "empty", 2)
    with closing(Hub(folder)) as hub:
        for name in ("slow", "starting", "interrupted", "empty"):
            hub.run(name)
        yield Client(make_app(hub, settings=Settings()))


def test_the_slow_rank_comes_first_and_few_ranks_have_bars(runs: Client) -> None:
    found = runs.get("/api/run/slow/startup").json()
    assert (found["num_ranks"], len(found["ranks"]), found["ranks"][0]["rank"]) == (40, 32, 7)
    assert found["slow"][0]["phase"] == "restore"
    restore = next(row for row in found["spread"] if row["part"] == "restore")
    assert (restore["usual"], restore["high"], restore["rank"]) == (1.0, 7.0, 7)
    assert found["is_over"]


def test_ranks_that_still_start_say_what_they_do(runs: Client) -> None:
    found = runs.get("/api/run/starting/startup").json()
    first = next(row for row in found["ranks"] if row["rank"] == 0)
    assert not found["is_over"]
    assert first["now"]["phase"] == "data"
    assert first["step_end_s"] is None


def test_the_ledger_of_all_attempts(runs: Client) -> None:
    found = runs.get("/api/run/interrupted/goodput").json()
    assert [row["ended"] for row in found["attempts"]] == ["failed", "killed", "finished"]
    assert found["effective_share"] == pytest.approx(117 / 229)
    assert len(found["advice"]["curve"]) > 10


@pytest.mark.parametrize(("end", "ended"), [(END, "finished"), (None, "not recorded")])
def test_how_ranks_of_a_generated_run_ended(
    tmp_path: Path, end: dict[str, Any] | None, ended: str
) -> None:
    made = RunBuilder(tmp_path / "made", 2, source="synthetic")
    made.rank_files(end=end)
    made.step(0, 0, 0, 1000)
    made.publish()
    with open_run(tmp_path / "made") as run:
        found = goodput_of(run)
    assert isinstance(found, Goodput)
    assert [row["ended"] for row in found.attempts] == [ended]


def test_a_run_without_anything_is_answered(runs: Client) -> None:
    assert json.loads(runs.get("/api/run/empty/goodput").body) is None
    assert runs.get("/api/run/empty/startup").json()["num_ranks"] == 0


def test_a_wrong_attempt_is_explained(runs: Client) -> None:
    answer = runs.get("/api/run/slow/startup?attempt=x")
    assert (answer.status, "whole number" in answer.json()["error"]) == (400, True)
    assert runs.get("/api/run/slow/startup?attempt=9").json()["num_ranks"] == 0
