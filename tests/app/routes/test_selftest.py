"""The routes of the page Selftest, in process."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from app.runs.hub import Hub
from app.server import make_app
from app.settings import Settings
from tests.app.server.asgi import Client
from tests.selftest_runs import selftest_run


@pytest.fixture
def selftest_client(tmp_path: Path) -> Iterator[Client]:
    selftest_run(tmp_path / "test", num_hosts=2, per_host=2)
    with closing(Hub(tmp_path)) as hub:
        hub.run("test")
        yield Client(make_app(hub, settings=Settings()))


def test_numbers_and_a_matrix(selftest_client: Client) -> None:
    answer = selftest_client.get("/api/run/test/selftest").json()
    assert len(answer["devices"]) == 4
    path = "/api/run/test/selftest/matrix?test=pair&bytes=65536&by=host"
    packed = selftest_client.get(path)
    assert packed.status == 200
    header_bytes = int.from_bytes(packed.body[:4], "little")
    assert b'"names": ["node0000", "node0001"]' in packed.body[4 : 4 + header_bytes]
    values = np.frombuffer(packed.body[4 + header_bytes :][:16], np.float32)
    assert values[1] == values[2]
    assert np.isnan(values[[0, 3]]).all()


def test_a_job_without_a_self_test(client: Client) -> None:
    answer = client.get("/api/run/job/selftest").json()
    assert (answer["tests"], answer["devices"]) == ([], [])


@pytest.mark.parametrize(
    ("query", "word"),
    [("?attempt=-1", "whole number"), ("/matrix?test=x", "'x'"), ("/matrix?bytes=z", "bytes")],
)
def test_wrong_parameters_are_explained(client: Client, query: str, word: str) -> None:
    answer = client.get(f"/api/run/job/selftest{query}")
    assert answer.status == 400
    assert word in answer.json()["error"]
