"""What one token can use up is its own share: those of others go on."""

from __future__ import annotations

import asyncio
import http.client
import json
import socket
from collections.abc import Iterator
from contextlib import ExitStack, closing, suppress
from pathlib import Path

import pytest
from starlette.types import Message
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from app.access import sessions
from app.access.access_files import digest_of
from app.access.sessions import Sessions
from app.routes.uploads import AT_ONCE, AT_ONCE_OF_ONE_TOKEN, MEDIA_TYPE
from app.runs.hub import Hub
from app.server import make_app
from app.settings import Settings, Token
from app.uploads.files import FileHead
from app.uploads.uploads import MOST_OF_ONE_TOKEN, MOST_UNFINISHED, uploads_of
from app.web.connections import Connection, Connections, Limits
from tests.app.server.asgi import Client
from tests.app.server.served import ask, logged_in
from tests.hostile.requests.flooded import BEARER, Flooded, flooded

NUM_FILES = 256
OTHER = "another-secret-of-16"
OTHERS = {"Authorization": f"Bearer {OTHER}"}
JOB_TOKEN = "a-secret-of-jobs"
NUM_WORKERS = 8
CALLBACK = "/_dash-update-component"


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Flooded]:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    given = ["--token", f"uploader={OTHER}", "--job-token", JOB_TOKEN]
    with flooded(tmp_path / "runs", NUM_FILES, *given) as running:
        yield running


@pytest.mark.long
def test_many_sessions_of_one_token_leave_connections_to_the_others(server: Flooded) -> None:
    with ExitStack() as opened:
        num_refused = 0
        for _ in range(6):
            cookie = logged_in(server.address, OTHER)
            for _ in range(20):
                try:
                    address = f"ws://{server.address}/api/live?run=job"
                    opened.enter_context(connect(address, additional_headers=cookie))
                except InvalidStatus as refused:
                    num_refused += refused.response.status_code == 503
        assert num_refused
        assert server.ask("/api/runs", **BEARER) == 200
        assert server.ask("/healthz") == 200


@pytest.mark.parametrize("most_of", ["session", "token", "server"])
def test_requests_in_one_turn_of_the_event_loop_pass_no_bound(most_of: str) -> None:
    bounds = dict.fromkeys(("session", "token", "server"), 100) | {most_of: 4}
    limits = Limits(100, bounds["server"], bounds["session"], bounds["token"], 100)

    async def let_in_24() -> list[bool]:
        loop, connections = asyncio.get_running_loop(), Connections(limits)
        opened: list[Connection] = []
        for _ in range(24):
            ours, theirs = socket.socketpair()
            ends.enter_context(theirs)
            connections.add(ours)
            transport, _ = await loop.create_connection(asyncio.Protocol, sock=ours)
            opened.append(connections.of(transport))
        names = [("one" if most_of == "session" else str(number)) for number in range(24)]
        results = []
        for number, (connection, session) in enumerate(zip(opened, names, strict=True)):
            connection.is_idle = number < 4
            results.append(connection.let_in(session, "token" if most_of == "token" else session))
        for connection in opened:
            connection.drop()
        await asyncio.sleep(0)
        return results

    with ExitStack() as ends:
        # four idle ones make room for four that are at work; nothing makes room for the others
        assert asyncio.run(let_in_24()) == [True] * 8 + [False] * 16


def test_sockets_of_jobs_leave_connections_to_people(server: Flooded) -> None:
    job = {"Authorization": f"Bearer {JOB_TOKEN}"}
    with ExitStack() as opened:
        for _ in range(110):
            with suppress(InvalidStatus):
                opened.enter_context(
                    connect(f"ws://{server.address}/agent", additional_headers=job)
                )
        assert server.ask("/api/runs", **BEARER) == 200


@pytest.mark.long
def test_slow_bodies_keep_no_thread_from_answering_pages(server: Flooded) -> None:
    head = f"POST {CALLBACK} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {OTHER}\r\n"
    head += "Content-Type: application/json\r\nContent-Length: 999\r\n\r\n{"
    with ExitStack() as opened:
        server.half_open(opened, 2 * NUM_WORKERS, head.encode())
        connection = http.client.HTTPConnection(server.address, timeout=60)
        sent = {**BEARER, "Content-Type": "application/json"}
        connection.request("POST", CALLBACK, b'{"output": "none", "inputs": []}', sent)
        answer = connection.getresponse()
        assert answer.status == 400
        assert "There is no such callback" in json.loads(answer.read())["error"]
        connection.close()


def test_uploads_of_one_token_leave_room_for_the_others(server: Flooded) -> None:
    body = json.dumps({"files": [{"name": "a.json", "size": 5}]}).encode()

    def create(token: dict[str, str]) -> tuple[int, bytes]:
        return ask(server.address, "/api/uploads", "POST", body, Tus_Resumable="1.0.0", **token)

    answers = [create(OTHERS) for _ in range(MOST_UNFINISHED)]
    assert [status for status, _ in answers].count(201) == MOST_OF_ONE_TOKEN
    assert b"with your token are in progress" in answers[-1][1]
    assert create(BEARER)[0] == 201


def test_uploads_sent_at_once_pass_no_bound(tmp_path: Path) -> None:
    secrets = ("first-secret-of-16", "second-secret-of-16", "third-secret-of-16")
    tokens = tuple(Token(secret) for secret in secrets)
    hub = Hub(tmp_path)
    app = make_app(hub, settings=Settings(tokens=tokens))
    uploads, left = uploads_of(hub), asyncio.Event()

    async def sent(secret: str) -> tuple[int, str]:
        """Status and sentence; half of the bytes come, then the browser leaves."""
        upload = uploads.create([FileHead("a.json", 2)], digest_of(secret))
        headers = {
            "authorization": f"Bearer {secret}",
            "tus-resumable": "1.0.0",
            "upload-offset": "0",
            "content-type": MEDIA_TYPE,
        }
        scope = Client(app).scope("http", f"/api/uploads/{upload.storage.id}", headers)
        half, answer = [b"x"], []

        async def receive() -> Message:
            if half:
                return {"type": "http.request", "body": half.pop(), "more_body": True}
            await left.wait()
            return {"type": "http.disconnect"}

        async def send(message: Message) -> None:
            answer.append(message)

        await app(scope | {"method": "PATCH"}, receive, send)
        body = answer[1].get("body", b"")
        return answer[0]["status"], json.loads(body)["error"] if body else ""

    async def send_all() -> list[tuple[int, str]]:
        sending = [
            asyncio.create_task(sent(secret))
            for secret, number in zip(secrets, (15, 12, 3), strict=True)
            for _ in range(number)
        ]
        await asyncio.sleep(1)
        left.set()
        return await asyncio.gather(*sending)

    with closing(hub):
        answers = asyncio.run(send_all())
    assert AT_ONCE == 2 * AT_ONCE_OF_ONE_TOKEN == 16
    assert [status for status, _ in answers].count(499) == AT_ONCE
    own = "8 uploads with your token are being sent; this one continues when one has ended"
    all_others = "16 uploads are being sent; this one continues when one has ended"
    assert [sentence for _, sentence in answers if sentence] == [own] * 7 + [all_others] * 7


def test_logging_in_again_and_again_ends_nobody_elses_session(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sessions, "MOST_SESSIONS", 20)
    known, mine, theirs = Sessions(), digest_of("mine"), digest_of("theirs")
    secret, first = known.open(mine), known.open(theirs)
    for _ in range(50):
        last = known.open(theirs)
    assert known.find(secret) is not None
    assert known.find(last) is not None
    assert known.find(first) is None
