"""The whole app in process: paths, SQL, queries that are given up."""

from __future__ import annotations

import asyncio
import json
import threading
from contextlib import closing
from pathlib import Path

import pytest
from starlette.types import ASGIApp

from app.runs.hub import Hub
from app.server import make_app
from app.settings import Settings
from app.web.assets import assets_version
from app.web.request_queue import FILES_OF_ONE_SESSION, MOST_WAITING, OF_ONE_ACCOUNT
from tests.app.server.asgi import Client
from tests.runs_builder import two_rank_run

PAGE = {"x_rankscope": "1"}
SELECT = b'{"sql": "SELECT 1"}'
ENDLESS = "SELECT count(*) FROM range(10000000) a, range(10000000) b"


@pytest.mark.parametrize("name", ["..", "%2e%2e", "..%2f..", "%2fetc", "job%2f..%2f..", "job%00"])
def test_runs_in_paths_lead_nowhere_else(client: Client, name: str) -> None:
    for path in (f"/api/run/{name}/timeline", f"/api/run/{name}/grid"):
        answer = client.get(path)
        assert answer.status in (400, 404) or "<!DOCTYPE html>" in answer.text  # the empty frame
        assert b"root:" not in answer.body


@pytest.mark.parametrize(
    "name", ["link", "..", "%2e%2e%2fsecret", "%2fetc", "job%2f..%2f..%2fsecret"]
)
def test_nothing_outside_the_folder_of_runs_is_served(tmp_path: Path, name: str) -> None:
    two_rank_run(tmp_path / "secret")
    two_rank_run(tmp_path / "runs" / "job")
    (tmp_path / "runs" / "link").symlink_to(tmp_path / "secret")
    outside = Hub(tmp_path / "runs")
    try:
        tried = Client(make_app(outside, settings=Settings()))
        answer = tried.post(f"/api/run/{name}/query", SELECT, **PAGE)
        assert "columns" not in answer.text
        if answer.headers["content-type"] == "application/json":
            assert "error" in answer.json()
        else:
            assert "<!DOCTYPE html>" in answer.text  # no route: the empty frame of the pages
        assert tried.post("/api/run/job/query", SELECT, **PAGE).status == 200
    finally:
        outside.close()


@pytest.mark.parametrize(
    "sql",
    [
        "COPY spans TO '/tmp/x'",
        "ATTACH '/tmp/x'",
        "PRAGMA version",
        "INSTALL httpfs",
        "LOAD httpfs",
        "SELECT * FROM read_text('/etc/passwd')",
        "SELECT * FROM glob('/etc/*')",
        "SELECT * FROM read_csv('/etc/passwd')",
        "FROM '/etc/passwd'",
        "SELECT getenv('HOME')",
        "SELECT 1; DROP TABLE files",
        "SET enable_external_access = true",
        "DELETE FROM files",
        "CREATE TABLE x AS SELECT 1",
        "EXPORT DATABASE '/tmp/x'",
        "CALL pragma_version()",
        "SELECT * FROM read_parquet('https://evil.example/x.parquet')",
        "CHECKPOINT",
        "",
    ],
)
def test_only_a_select_over_the_run_is_answered(client: Client, sql: str) -> None:
    for route in ("query", "query.csv"):
        answer = client.post(f"/api/run/job/{route}", json.dumps({"sql": sql}).encode(), **PAGE)
        assert answer.status == 400, answer.text
        assert answer.json()["error"]
        assert "root:" not in answer.text


async def exchanged(
    app: ASGIApp,
    target: str,
    left: asyncio.Event,
    sql: str = "",
    cookies: dict[str, str] | None = None,
) -> tuple[int, bytes]:
    """Status and body of an answer; the browser goes when `left` is set."""
    client = Client(app)
    client.cookies = cookies or {}
    method, body = ("POST", json.dumps({"sql": sql}).encode()) if sql else ("GET", b"")
    answer = await client.exchange(method, target, body, PAGE, left)
    return answer.status, answer.body


@pytest.mark.parametrize(
    ("route", "num_taken", "waited_for", "message"),
    [
        (
            "query",
            OF_ONE_ACCOUNT + MOST_WAITING // 2,
            ["SQL"],
            b"8 requests are waiting for an answer",
        ),
        ("query.csv", FILES_OF_ONE_SESSION, [], b"2 files are being sent to you; try again"),
    ],
)
def test_slow_queries_of_one_session_hold_nobody_else_up(
    hub: Hub, route: str, num_taken: int, waited_for: list[str], message: bytes
) -> None:
    app = make_app(hub, settings=Settings())
    paths = (f"/assets/{assets_version()}/main.mjs", "/api/run/job/findings", "/api/runs")
    paths += ("/api/run/job/what-if", "/api/run/job/share", "/api/run/job/query?q=steps")
    sql, someone = f"/api/run/job/{route}", Client(app)
    assert someone.get("/", accept="text/html").status == 200  # a page gives a cookie

    async def crowd() -> list[tuple[int, bytes]]:
        left = asyncio.Event()
        slow = [asyncio.create_task(exchanged(app, sql, left, ENDLESS)) for _ in range(45)]
        await asyncio.sleep(0.5)
        refused = [task.result() for task in slow if task.done()]
        content = json.loads((await exchanged(app, "/healthz", asyncio.Event()))[1])
        status = "degraded" if waited_for else "ok"
        assert (content["status"], content["waited_for"]) == (status, waited_for)
        for path in paths:
            answered = await asyncio.wait_for(exchanged(app, path, asyncio.Event()), 20)
            assert answered[0] == 200, path
        other = exchanged(app, sql, asyncio.Event(), "SELECT 1", someone.cookies)
        assert (await asyncio.wait_for(other, 20))[0] == 200
        left.set()
        ended = await asyncio.wait_for(asyncio.gather(*slow), 20)
        assert sum(status == 499 for status, _ in ended) == num_taken
        assert (await exchanged(app, sql, asyncio.Event(), "SELECT 1"))[0] == 200
        content = json.loads((await exchanged(app, "/healthz", asyncio.Event()))[1])
        assert (content["status"], content["waited_for"]) == ("ok", [])
        return refused

    refused = asyncio.run(crowd())
    assert len(refused) == 45 - num_taken
    for status, body in refused:
        assert status == 503
        assert message in body


def test_getting_sql_ready_holds_nothing_else_up(tmp_path: Path) -> None:
    two_rank_run(tmp_path / "job")

    async def steps(app: ASGIApp, opening: threading.Lock) -> None:
        async def status(target: str, sql: str = "") -> int:
            return (await exchanged(app, target, asyncio.Event(), sql))[0]

        opening.acquire()  # as while another run is opened
        threading.Timer(3, opening.release).start()
        ready = asyncio.create_task(status("/api/run/job/query/ready", "{}"))
        await asyncio.sleep(0.2)
        assert await status("/healthz") == 200
        assert opening.locked()
        assert await ready == 204

    with closing(Hub(tmp_path)) as hub:
        asyncio.run(steps(make_app(hub, settings=Settings()), hub._opening))
