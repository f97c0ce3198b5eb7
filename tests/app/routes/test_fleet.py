"""All runs together over HTTP."""

from __future__ import annotations

import pytest

from tests.app.server.asgi import Client
from tests.waiting import wait_until


def test_the_runs_of_the_folder(client: Client) -> None:
    wait_until(lambda: client.get("/api/fleet").json()["fleet"]["num_runs"] == 1)
    answer = client.get("/api/fleet?sort=run&dir=asc").json()
    assert [row["run"] for row in answer["rows"]] == ["job"]
    host = answer["hosts"][0]
    assert client.get(f"/api/fleet?host={host}").json()["fleet"]["num_runs"] == 1
    assert client.get("/api/fleet?host=..%2F..%2Fetc").json()["fleet"]["num_runs"] == 0


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("sort=x", "sort is 'x'"),
        ("dir=up", "dir is 'up'; give asc or desc"),
        ("page=-1", "page is '-1'; give a whole number from 0"),
        ("from=yesterday", "from is 'yesterday'; give a date"),
        ("until=2026-13-01", "until is '2026-13-01'"),
    ],
)
def test_a_damaged_parameter_is_one_sentence(client: Client, query: str, words: str) -> None:
    answer = client.get(f"/api/fleet?{query}")
    assert answer.status == 400
    assert words in answer.json()["error"]
