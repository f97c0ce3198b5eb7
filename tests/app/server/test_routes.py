"""The whole app in process: health, metrics, headers, files, errors, queries that are given up."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import re
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp

from app.runs.hub import Hub
from app.server import make_app
from app.settings import Settings, Token
from app.web.answers import answer, stop_all
from app.web.assets import assets_version
from app.web.request_queue import FILES_OF_ONE_SESSION, MOST_WAITING, OF_ONE_ACCOUNT
from ingest.errors import UserError
from ingest.stopping import Stop
from tests.app.server.asgi import Client
from tests.runs_builder import two_rank_run

PAGE = {"x_rankscope": "1"}
SELECT = b'{"sql": "SELECT 1"}'
ENDLESS = "SELECT count(*) FROM range(10000000) a, range(10000000) b"
SECRET = "correct-horse-battery"


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    runs = tmp_path_factory.mktemp("runs")
    two_rank_run(runs / "job")
    opened = Hub(runs)
    opened.run("job")
    yield opened
    opened.close()


@pytest.fixture(scope="module")
def client(hub: Hub) -> Client:
    return Client(make_app(hub, settings=Settings()))


@pytest.fixture(scope="module")
def guarded(hub: Hub) -> Client:
    return Client(make_app(hub, settings=Settings(host="0.0.0.0", tokens=(Token(SECRET),))))


def test_health_tells_strangers_no_names(
    hub: Hub, client: Client, guarded: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = client.get("/healthz").json()
    assert content["status"] == "ok"
    assert content["num_runs_open"] == 1
    monkeypatch.setattr(hub, "problems", lambda: ["job: the disk is full"])
    content = guarded.get("/healthz").json()
    assert content["status"] == "degraded"
    assert content["num_problems"] == 1
    assert "problems" not in content
    known = guarded.get("/healthz", authorization=f"Bearer {SECRET}").json()
    assert known["problems"] == ["job: the disk is full"]


LINE = re.compile(r'rankscope_\w+(\{\w+="[^"]*"(,\w+="[^"]*")*\})? -?[\d.e+-]+')


def test_metrics_are_prometheus_text(client: Client) -> None:
    def count(text: str, series: str) -> float:
        match = re.search(rf"^{re.escape(series)} (.*)$", text, re.MULTILINE)
        return float(match[1]) if match else 0.0

    before = client.get("/metrics").text
    client.get("/healthz")
    client.get("/healthz", host="evil.example")
    client.get("/run/job/overview")
    after = client.get("/metrics").text
    for line in after.splitlines():
        assert line.startswith(("# HELP rankscope_", "# TYPE rankscope_")) or LINE.fullmatch(line)
    series = [line.split("{")[0].split(" ")[0] for line in after.splitlines() if line[0] != "#"]
    typed = {line.split()[2] for line in after.splitlines() if line.startswith("# TYPE")}
    assert {re.sub(r"_(bucket|sum|count)$", "", name) for name in series} == typed

    for series_name, more in (
        ('rankscope_requests_total{route="/healthz",status="200"}', 1),
        ('rankscope_requests_total{route="refused",status="403"}', 1),
        ('rankscope_requests_total{route="pages",status="200"}', 1),
        ('rankscope_request_seconds_count{route="/healthz"}', 1),
        ('rankscope_request_seconds_bucket{route="/healthz",le="+Inf"}', 1),
        ("rankscope_runs_open", 0),
    ):
        assert count(after, series_name) == count(before, series_name) + more, series_name
    assert count(after, "rankscope_index_passes_total") >= 1
    assert count(after, "rankscope_resident_bytes") > 10e6


@pytest.mark.parametrize("path", ["/", "/healthz", "/api/nothing", "/assets/x/nothing.mjs"])
def test_every_answer_carries_the_headers(client: Client, path: str) -> None:
    headers = client.get(path).headers
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "same-origin"
    assert "frame-ancestors 'none'" in headers["content-security-policy"]


def test_the_policy_lets_run_what_the_page_holds_and_nothing_else(client: Client) -> None:
    page = client.get("/run/job/overview")
    policy = page.headers["content-security-policy"]
    rules = dict(rule.strip().split(" ", 1) for rule in policy.split(";"))
    assert "unsafe" not in rules["script-src"]
    assert not re.search(r"https?:|\*|\bwss?:(?!//127\.0\.0\.1:8050[ ;])", policy)
    scripts = re.findall(r"<script(?![^>]*(?:src=|json))[^>]*>(.*?)</script>", page.text, re.DOTALL)
    assert scripts
    for script in scripts:
        digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
        assert f"'sha256-{digest}'" in rules["script-src"]
    assert not re.findall(r'(?:src|href)="(?!/)', page.text)  # all of it from here


def test_the_policy_names_the_sockets_of_this_host_and_no_other(hub: Hub, client: Client) -> None:
    def connects(tried: Client, host: str) -> str:
        policy = tried.get("/", host=host).headers["content-security-policy"]
        return re.search(r"connect-src ([^;]*);", policy)[1].strip()  # type: ignore[index]

    assert connects(client, "localhost:9000") == "'self' ws://localhost:9000 wss://localhost:9000"
    assert connects(client, "localhost; script-src *") == "'self'"
    public = Client(
        make_app(
            hub, settings=Settings(public_url="https://hub.example.org/p", tokens=(Token(SECRET),))
        )
    )
    assert "wss://hub.example.org" in connects(public, "127.0.0.1:8050")


def test_nothing_is_kept_by_guess(client: Client) -> None:
    assert client.get("/run/job/overview").headers["cache-control"] == "no-cache"
    assert client.get("/api/runs").headers["cache-control"].startswith("no-")


def test_refusals_carry_them_too(client: Client) -> None:
    assert "content-security-policy" in client.get("/", host="evil.example").headers


@pytest.mark.parametrize(
    "path",
    [
        "..%2f..%2fpyproject.toml",
        "../../pyproject.toml",
        "%2e%2e/%2e%2e/app/server.py",
        "css",
        "/etc/passwd",
        "%2fetc%2fpasswd",
        "lib/../../app/server.py",
        "main.mjs%00.css",
        "nothing.css",
        "..%5c..%5cpyproject.toml",
        "css/" + "a" * 5000 + ".css",
    ],
)
def test_files_come_from_assets_alone(client: Client, path: str) -> None:
    answer = client.get(f"/assets/{assets_version()}/{path}")
    assert answer.status == 404
    assert b"import" not in answer.body


def test_assets_are_kept_for_ever_under_their_version(client: Client) -> None:
    answer = client.get(f"/assets/{assets_version()}/main.mjs")
    assert answer.headers["content-type"].startswith("text/javascript")
    assert "immutable" in answer.headers["cache-control"]
    other = client.get("/assets/0123456789ab/main.mjs")
    assert (other.status, other.headers["cache-control"]) == (200, "no-cache")


def test_an_unknown_route_of_data_is_no_page(client: Client) -> None:
    for method in ("GET", "POST", "DELETE"):
        answer = client.request(method, "/api/run/job/nothing")
        assert answer.status == 404
        assert "There is no /api/run/job/nothing" in answer.json()["error"]


@pytest.mark.parametrize("name", ["..", "%2e%2e", "..%2f..", "%2fetc", "job%2f..%2f..", "job%00"])
def test_runs_in_paths_lead_nowhere_else(client: Client, name: str) -> None:
    for path in (f"/api/run/{name}/timeline", f"/api/run/{name}/grid"):
        answer = client.get(path)
        assert answer.status in (400, 404) or "<!DOCTYPE html>" in answer.text  # the empty frame
        assert b"root:" not in answer.body


@pytest.mark.parametrize(
    "name", ["link", "..", "%2e%2e%2fsecret", "%2fetc", "job%2f..%2f..%2fsecret"]
)
def test_nothing_outside_the_folder_of_runs_is_told(tmp_path: Path, name: str) -> None:
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


def test_a_callback_takes_no_endless_body(client: Client) -> None:
    body = b'{"x": "' + b"x" * (5 << 20) + b'"}'
    environ = {"content_type": "application/json", "content_length": str(len(body))}
    assert client.post("/_dash-update-component", body, **environ).status == 413


PAGE_OUTPUT = "..page.children...page.className...strip-place.children.."


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (b"{}", "output and inputs"),
        (b"[]", "output and inputs"),
        (b"", "output and inputs"),
        (b"{", "output and inputs"),
        (b"[" * 100_000, "output and inputs"),
        (b'{"output": 1, "inputs": []}', "output and inputs"),
        (b'{"output": "nothing.children", "inputs": []}', "no such callback"),
        (b'{"output": "%s"}' % PAGE_OUTPUT.encode(), "inputs"),
        (b'{"output": "%s", "inputs": {}}' % PAGE_OUTPUT.encode(), "inputs"),
        (b'{"output": "%s", "inputs": [1]}' % PAGE_OUTPUT.encode(), "inputs"),
    ],
)
def test_a_malformed_callback_is_a_sentence(client: Client, body: bytes, says: str) -> None:
    environ = {"content_type": "application/json", "content_length": str(len(body))}
    answer = client.post("/_dash-update-component", body, **environ)
    assert answer.status == 400
    assert says in answer.json()["error"]


def test_the_page_is_the_same_below_a_prefix(hub: Hub) -> None:
    tried = Client(make_app(hub, settings=Settings(base="/user/x/proxy/8050")))
    kept = tried.get("/user/x/proxy/8050/run/job/overview")
    stripped = tried.get("/run/job/overview")
    assert kept.status == stripped.status == 200
    by_chance = re.compile(r'"end_id":"[^"]*"')
    assert by_chance.sub("", kept.text) == by_chance.sub("", stripped.text)
    links = re.findall(r'(?:src|href)="([^"]+)"', kept.text)
    assert links
    assert all(link.startswith("/user/x/proxy/8050/") for link in links)
    for link in links:
        assert tried.get(link).status == 200, link
        assert tried.get(link.removeprefix("/user/x/proxy/8050")).status == 200, link


def small_app(route: Any) -> Starlette:
    return Starlette(routes=[Route("/", route)])


def test_an_error_of_the_user_is_a_sentence() -> None:
    def failing(_stop: Stop) -> int:
        raise UserError("there is no rank 9")

    async def route(request: Request) -> Response:
        return await answer(request, failing, lambda _: Response())

    content = Client(small_app(route)).get("/")
    assert (content.status, content.json()) == (400, {"error": "there is no rank 9"})


def test_a_bug_is_a_sentence_too(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    def buggy() -> list[str]:
        raise RuntimeError("dictionary changed size")

    monkeypatch.setattr(hub, "problems", buggy)
    sent: list[dict[str, Any]] = []
    scope = Client(None).scope("http", "/healthz", {}) | {"method": "GET"}  # type: ignore[arg-type]

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b""}

    async def send(message: Any) -> None:
        sent.append(message)

    with pytest.raises(RuntimeError, match="dictionary"):  # for the server's log
        asyncio.run(make_app(hub, settings=Settings())(scope, receive, send))
    assert sent[0]["status"] == 500
    assert b"dictionary" not in sent[1]["body"]
    assert b'{"error":"' in sent[1]["body"]


def query_app(hub: Hub, ended: list[str]) -> Starlette:
    def compute(stop: Stop) -> int:
        try:
            return hub.run("job").sql(ENDLESS, stop=stop).num_rows
        except UserError as error:
            ended.append(str(error))
            raise

    async def route(request: Request) -> Response:
        return await answer(request, compute, lambda n: JSONResponse(n))

    return small_app(route)


def leave(app: Starlette, after_s: float) -> list[dict[str, Any]]:
    """Ask and go away after a moment; what the app sent to nobody."""
    sent: list[dict[str, Any]] = []
    scope = Client(app).scope("http", "/", {}) | {"method": "GET"}

    async def exchange() -> None:
        begun_s = time.monotonic()

        async def receive() -> dict[str, Any]:
            left_s = begun_s + after_s - time.monotonic()
            if left_s > 0:
                await asyncio.sleep(left_s)
            return {"type": "http.disconnect"}

        async def send(message: Any) -> None:
            sent.append(message)

        await asyncio.wait_for(app(scope, receive, send), 20)

    asyncio.run(exchange())
    return sent


def test_a_browser_that_left_ends_its_query(hub: Hub) -> None:
    ended: list[str] = []
    begun_s = time.monotonic()
    sent = leave(query_app(hub, ended), after_s=0.3)
    assert time.monotonic() - begun_s < 5
    assert "was interrupted" in ended[0]
    assert sent[0]["status"] == 499


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
    ("route", "num_taken", "waited_for", "says"),
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
    hub: Hub, route: str, num_taken: int, waited_for: list[str], says: bytes
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
        assert says in body


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


def test_a_server_that_stops_ends_its_queries(hub: Hub) -> None:
    ended: list[str] = []

    async def exchange() -> None:
        app = query_app(hub, ended)
        scope = Client(app).scope("http", "/", {}) | {"method": "GET"}

        async def receive() -> dict[str, Any]:
            await asyncio.sleep(30)
            return {"type": "http.disconnect"}

        async def send(_message: Any) -> None:
            pass

        request = asyncio.create_task(app(scope, receive, send))
        await asyncio.sleep(0.5)
        stop_all()
        await asyncio.wait_for(request, 5)

    asyncio.run(exchange())
    assert "was interrupted" in ended[0]
