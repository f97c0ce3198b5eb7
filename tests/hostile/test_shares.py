"""What one token can use up is its own share: those of others go on."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from app import sessions
from app.access_files import digest_of
from app.sessions import Sessions
from app.uploads import MOST_OF_ONE_TOKEN, MOST_UNDER_WAY
from tests.app.server.served import ask
from tests.hostile.flooded import BEARER, Flooded, flooded

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


def logged_in(server: Flooded, secret: str) -> str:
    """The cookie of a new session."""
    connection = http.client.HTTPConnection(server.address)
    connection.request("GET", f"/?token={secret}")
    cookie = connection.getresponse().getheader("Set-Cookie") or ""
    connection.close()
    return cookie.partition(";")[0]


def test_many_sessions_of_one_token_leave_connections_to_the_others(server: Flooded) -> None:
    with ExitStack() as opened:
        num_refused = 0
        for _ in range(6):
            cookie = {"Cookie": logged_in(server, OTHER)}
            for _ in range(20):
                try:
                    address = f"ws://{server.address}/api/live?run=job"
                    opened.enter_context(connect(address, additional_headers=cookie))
                except InvalidStatus as refused:
                    num_refused += refused.response.status_code == 503
        assert num_refused
        assert server.ask("/api/runs", **BEARER) == 200
        assert server.ask("/healthz") == 200


def test_sockets_of_jobs_leave_connections_to_people(server: Flooded) -> None:
    job = {"Authorization": f"Bearer {JOB_TOKEN}"}
    with ExitStack() as opened:
        for _ in range(110):
            with suppress(InvalidStatus):
                opened.enter_context(
                    connect(f"ws://{server.address}/agent", additional_headers=job)
                )
        assert server.ask("/api/runs", **BEARER) == 200


def test_slow_bodies_keep_no_thread_from_answering_pages(server: Flooded) -> None:
    head = f"POST {CALLBACK} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {OTHER}\r\n"
    head += "Content-Type: application/json\r\nContent-Length: 999\r\n\r\n{"
    with ExitStack() as opened:
        server.half_open(opened, 2 * NUM_WORKERS, head.encode())
        connection = http.client.HTTPConnection(server.address, timeout=10)
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

    answers = [create(OTHERS) for _ in range(MOST_UNDER_WAY)]
    assert [status for status, _ in answers].count(201) == MOST_OF_ONE_TOKEN
    assert b"with your token are under way" in answers[-1][1]
    assert create(BEARER)[0] == 201


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
