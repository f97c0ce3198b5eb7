"""The route of log lines: none, and damaged parameters."""

from __future__ import annotations

import pytest

from tests.app.server.asgi import Client


def test_a_run_without_lines(client: Client) -> None:
    assert client.get("/api/run/job/logs").json() == {"lines": [], "num_found": 0}


@pytest.mark.parametrize("query", ["ranks=1;2", "least=loud", "steps=3", "attempt=x"])
def test_wrong_parameters_are_explained(client: Client, query: str) -> None:
    answer = client.get(f"/api/run/job/logs?{query}")
    assert answer.status == 400
    assert "give" in answer.json()["error"]
