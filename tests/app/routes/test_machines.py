"""The routes of the page Machines: a run without samples, and damaged parameters."""

from __future__ import annotations

import pytest

from tests.app.server.asgi import Client

RUN = "/api/run/job/machines"


def test_a_run_without_samples(client: Client) -> None:
    assert client.get(f"{RUN}/changes").json() == {
        "changes": [],
        "is_part": False,
        "unreadable": [],
    }
    assert client.get(f"{RUN}/telling").json() == {"changes": [], "more": 0}
    assert client.get(f"{RUN}/host?host=h0").json()["lines"] == []
    assert client.get(f"{RUN}/host?rank=0&t=0..2000000000").json()["host"] == "h0"
    assert client.get(f"{RUN}/host?rank=99").json()["host"] == ""
    assert b'"hosts": []' in client.get(RUN).body
    assert b'"hosts": []' in client.get(f"{RUN}/ports?metric=nic_active").body


@pytest.mark.parametrize(
    "query",
    [
        "?steps=3",
        "?attempt=x",
        "/ports?metric=nothing",
        "/ports",
        "/host?attempt=-1",
        "/host?rank=x",
        "/host?rank=0&t=5",
    ],
)
def test_wrong_parameters_are_explained(client: Client, query: str) -> None:
    answer = client.get(f"{RUN}{query}")
    assert answer.status == 400
    assert "give" in answer.json()["error"]
