"""The route of the page Data, in process."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from app.runs.hub import Hub
from app.server import make_app
from app.settings import Settings
from tests.app.server.asgi import Client
from tests.data_runs import data_run
from tests.runs_builder import T0, two_rank_run


@pytest.fixture
def data_client(tmp_path: Path) -> Iterator[Client]:
    data_run(tmp_path / "data")
    with closing(Hub(tmp_path)) as hub:
        hub.run("data")
        yield Client(make_app(hub, settings=Settings()))


def test_numbers(data_client: Client) -> None:
    answer = data_client.get("/api/run/data/data?steps=0..7").json()
    assert answer["waits"][0]["rank"] == 1
    assert answer["why"].startswith("Worker 1 takes")
    few = data_client.get("/api/run/data/data?steps=0..1").json()
    assert few["why"] is None


@pytest.mark.parametrize("number", [math.nan, math.inf])
def test_what_the_job_states_need_not_be_a_number(tmp_path: Path, number: float) -> None:
    run = two_rank_run(tmp_path / "data")
    run.add("loader_standby", 0, 1, ts_ns=T0, lag_samples=1, snapshot_age_s=number)
    run.add("batch_sources", 0, 1, ts_ns=T0, source="web", samples=4, planned=number)
    run.publish()
    with closing(Hub(tmp_path)) as hub:
        client = Client(make_app(hub, settings=Settings()))
        answer = client.get("/api/run/data/data").json()
        shared = client.get("/api/run/data/share?page=data")
    assert answer["standby"][0]["newest_age_s"] is None
    assert answer["sources"][0]["planned"] is None
    assert shared.status == 200


def test_a_job_without_batches(client: Client) -> None:
    answer = client.get("/api/run/job/data").json()
    assert (answer["workers"], answer["sources"], answer["memory"]) == ([], [], [])


@pytest.mark.parametrize(
    ("query", "word"), [("?attempt=-1", "whole number"), ("?steps=x", "steps")]
)
def test_wrong_parameters_are_explained(client: Client, query: str, word: str) -> None:
    answer = client.get(f"/api/run/job/data{query}")
    assert answer.status == 400
    assert word in answer.json()["error"]
