"""The list of runs over HTTP."""

from __future__ import annotations

from tests.app.server.asgi import Client
from tests.waiting import wait_until


def test_each_run_is_a_row(client: Client) -> None:
    def names() -> list[str]:
        return [row["name"] for row in client.get("/api/runs").json()["runs"]]

    wait_until(lambda: names() == ["job"])
