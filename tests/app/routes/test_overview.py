"""The step-time strip as arrays."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.app.server.asgi import Client


def header(content: bytes) -> dict[str, Any]:
    size = int.from_bytes(content[:4], "little")
    described: dict[str, Any] = json.loads(content[4 : 4 + size])
    return described


def test_the_strip_has_a_point_for_each_step(client: Client) -> None:
    answer = client.get("/api/run/job/strip", **{"accept-encoding": "identity"})
    assert answer.status == 200
    described = header(answer.body)
    assert {array["length"] for array in described["arrays"].values()} == {3}
    assert described["stretches"] == []
    assert described["median_ms"] > 0


def test_the_strip_of_many_ranks_does_not_wait_for_findings(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    def found(address: str) -> tuple[bool, int]:
        described = header(client.get(address, **{"accept-encoding": "identity"}).body)
        return described["is_whole"], described["arrays"]["step"]["length"]

    monkeypatch.setattr("app.routes.overview.MOST_RANKS_AT_ONCE", 1)
    assert found("/api/run/job/strip?attempt=0&wait=no") == (False, 3)
    assert found("/api/run/job/strip?attempt=0") == (True, 3)
    assert found("/api/run/job/strip?attempt=0&wait=no") == (
        True,
        3,
    )  # known by now


def test_an_attempt_that_is_not_a_number_is_a_sentence(client: Client) -> None:
    answer = client.get("/api/run/job/strip?attempt=x")
    assert answer.status == 400
    assert "attempt" in answer.json()["error"]
