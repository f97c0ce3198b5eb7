"""Connections that nobody ends: they keep out nobody who has a token, and do not last."""

from __future__ import annotations

import json
import socket
import ssl
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import httpx
import pytest
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from app.web.connections import HEAD_S
from tests.app.commands.test_serve import TLS
from tests.hostile.requests.flooded import BEARER, HALF, SECRET, WAIT_S, Flooded, flooded, is_closed
from tests.waiting import wait_until

NUM_FILES = 256
UPGRADE = (
    "GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
    "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n"
)
SLACK_S = 5.0


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Flooded]:
    with flooded(tmp_path_factory.mktemp("runs"), NUM_FILES) as running:
        assert running.ask("/api/runs", **BEARER) == 200
        wait_until(lambda: running.ask("/api/run/job/layout", **BEARER) == 200)  # it is indexed
        yield running


@pytest.fixture
def opened() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def answers(server: Flooded) -> None:
    """It answers strangers about its health, and whoever has a token about everything."""
    assert server.ask("/healthz") == 200
    assert server.ask("/", **BEARER) == 200
    assert server.ask("/api/runs", **BEARER) == 200
    assert server.ask("/api/runs") == 401
    with connect(f"ws://{server.address}/api/live?run=job", additional_headers=BEARER) as live:
        assert json.loads(live.recv(WAIT_S))["run"] == "job"


@pytest.mark.sampled
@pytest.mark.parametrize(
    "sent",
    [
        b"",
        b"G",
        HALF,
        UPGRADE.format(path="/api/live").encode(),
        b"POST /api/uploads HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 99999\r\n\r\n{",
    ],
    ids=["silent", "one byte", "head", "socket", "body"],
)
def test_400_half_open_connections_keep_nobody_out(
    server: Flooded, opened: ExitStack, sent: bytes
) -> None:
    server.half_open(opened, 400, sent)
    for _ in range(3):
        answers(server)
    assert server.num_files() < NUM_FILES


def test_400_strangers_who_keep_their_connection_keep_nobody_out(
    server: Flooded, opened: ExitStack
) -> None:
    whole = b"GET /api/runs HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
    server.half_open(opened, 400, whole)
    answers(server)


def test_sockets_without_a_token_keep_nobody_out(server: Flooded, opened: ExitStack) -> None:
    for path in ("/api/live", "/agent"):
        server.half_open(opened, 200, UPGRADE.format(path=path).encode() + b"\r\n")
        answers(server)


def test_no_request_with_a_token_is_dropped_for_sockets_that_say_nothing(
    server: Flooded, opened: ExitStack
) -> None:
    handshake = UPGRADE.format(path="/agent") + "Authorization: Bearer wrong-job-token-0\r\n\r\n"
    server.half_open(opened, 200, handshake.encode())
    for _ in range(25):
        assert server.ask("/healthz") == 200
        assert server.ask("/api/runs", **BEARER) == 200


def test_the_oldest_half_open_connection_goes_and_the_newest_stays(
    server: Flooded, opened: ExitStack
) -> None:
    oldest, *_, newest = server.half_open(opened, 200)
    assert is_closed(oldest, SLACK_S)
    newest.sendall(f"x\r\nAuthorization: Bearer {SECRET}\r\n\r\n".encode())
    assert newest.recv(100).startswith(b"HTTP/1.1 200")


def dripped(connection: socket.socket, piece: bytes) -> float:
    """Seconds until the server drops a connection on which a byte comes twice a second."""
    began_s = time.monotonic()
    while time.monotonic() - began_s < HEAD_S + SLACK_S:
        try:
            connection.sendall(piece)
        except ConnectionError:
            break
        if is_closed(connection, 0.5):
            break
    return time.monotonic() - began_s


@pytest.mark.long
def test_requests_that_never_end_have_10_seconds_and_slow_uploads_have_as_long_as_they_come(
    server: Flooded, opened: ExitStack
) -> None:
    headers = f"Host: 127.0.0.1\r\nAuthorization: Bearer {SECRET}\r\n"
    whole = f"GET /api/runs HTTP/1.1\r\n{headers}\r\n".encode()
    stranger = b"POST /api/uploads HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 999\r\n\r\n"
    body = json.dumps({"files": [{"name": "a.json", "size": 1}]}).encode()
    upload = f"POST /api/uploads HTTP/1.1\r\n{headers}Tus-Resumable: 1.0.0\r\n"
    upload += f"Content-Length: {len(body)}\r\n\r\n"
    firsts = {"silent": b"", "head": HALF, "second head": whole, "body": stranger}
    lines = {name: server.half_open(opened, 1, first)[0] for name, first in firsts.items()}
    assert lines["second head"].recv(65_536).startswith(b"HTTP/1.1 200")
    lines["second head"].sendall(HALF)
    (slow,) = server.half_open(opened, 1, upload.encode() + body[:5])
    pieces = {"silent": b"", "head": b"x", "second head": b"x", "body": b"x"}
    with ThreadPoolExecutor(len(lines)) as threads:
        lasted = threads.map(lambda name: dripped(lines[name], pieces[name]), lines)
        lasted_s = dict(zip(lines, lasted, strict=True))
    assert all(HEAD_S - 2 < seconds < HEAD_S + SLACK_S for seconds in lasted_s.values()), lasted_s
    server.half_open(opened, 200)
    slow.sendall(body[5:])
    assert slow.recv(100).startswith(b"HTTP/1.1 201")


def test_who_is_in_stays_in_during_a_flood(server: Flooded, opened: ExitStack) -> None:
    address = f"ws://{server.address}/api/live?run=job"
    live = opened.enter_context(connect(address, additional_headers=BEARER))
    for _ in range(5):
        server.half_open(opened, 100)
        assert json.loads(live.recv(WAIT_S))["run"] == "job"


@pytest.mark.long
def test_one_token_leaves_room_for_the_others(tmp_path: Path) -> None:
    other = "another-secret-of-16"
    with (
        flooded(tmp_path, NUM_FILES, "--token", f"viewer={other}") as server,
        ExitStack() as opened,
    ):
        address, refusals = f"ws://{server.address}/api/live", []
        for _ in range(120):
            try:
                opened.enter_context(connect(address, additional_headers=BEARER))
            except InvalidStatus as refused:
                refusals.append((refused.response.status_code, refused.response.body or b""))
        assert refusals
        assert all(status == 503 for status, _ in refusals)
        assert all(
            b"You have the maximum number of connections" in sentence for _, sentence in refusals
        )
        assert server.ask("/api/runs", Authorization=f"Bearer {other}") == 200
        assert server.ask("/healthz") == 200


@pytest.mark.parametrize(
    "query",
    ["&".join(f"a{n}=1" for n in range(5_000)), "&" * 4_999, "a=" + "x" * 40_000],
    ids=["5,000 parameters", "5,000 empty ones", "a long one"],
)
@pytest.mark.parametrize("path", ["/live/frames", "/api/live", "/agent"])
def test_a_long_address_of_a_socket_is_refused_with_a_sentence(
    server: Flooded, path: str, query: str
) -> None:
    with (
        pytest.raises(InvalidStatus) as refused,
        connect(f"ws://{server.address}{path}?{query}", additional_headers=BEARER, open_timeout=60),
    ):
        pass
    assert refused.value.response.status_code in (414, 431)
    sentence = json.loads(refused.value.response.body or b"")["error"]
    assert "less at a time" in sentence


@pytest.mark.parametrize("path", ["/", "/healthz", "/api/runs", "/run/job/overview", "/metrics"])
def test_a_long_address_is_refused_with_a_sentence_on_every_route(
    server: Flooded, path: str
) -> None:
    query = "&".join(f"a{n}=1" for n in range(5_000))
    assert server.ask(f"{path}?{query}", **BEARER) == 414


@pytest.mark.parametrize(
    "sent",
    [b"\0\r\n\r\n", b"GET / HTTP/9\r\n\r\n", b"GET / HTTP/1.1\r\nA: " + b"x" * 70_000],
    ids=["no HTTP", "of another version", "without end"],
)
def test_what_is_no_request_gets_a_sentence(
    server: Flooded, opened: ExitStack, sent: bytes
) -> None:
    (one,) = server.half_open(opened, 1, sent)
    answer = b""
    while piece := one.recv(65_536):
        answer += piece
    assert answer.startswith(b"HTTP/1.1 400")
    assert "not a valid HTTP/1.1 request" in json.loads(answer.partition(b"\r\n\r\n")[2])["error"]


@pytest.mark.long
def test_handshakes_of_tls_that_never_end_keep_nobody_out(tmp_path: Path) -> None:
    given = ["--certfile", str(TLS / "certificate.pem"), "--keyfile", str(TLS / "key.pem")]
    trust = ssl.create_default_context(cafile=TLS / "certificate.pem")
    with flooded(tmp_path, NUM_FILES, *given) as server, ExitStack() as opened:
        for sent in (b"", b"\x16\x03\x01\x02\x00"):
            oldest, *_ = server.half_open(opened, 400, sent)
            with httpx.Client(base_url=f"https://{server.address}", verify=trust) as client:
                assert client.get("/healthz").status_code == 200
                assert client.get("/api/runs", headers=BEARER).status_code == 200
            assert is_closed(oldest, SLACK_S)
            assert server.num_files() < NUM_FILES


def test_a_client_that_reads_nothing_is_not_waited_for_when_the_server_stops(
    tmp_path: Path,
) -> None:
    with flooded(tmp_path, NUM_FILES) as server, ExitStack() as opened:
        server.half_open(opened, 50)
        server.process.terminate()
        assert server.process.wait(WAIT_S) == 0


def test_a_peer_that_has_left_is_not_counted(server: Flooded, opened: ExitStack) -> None:
    before = server.num_files()
    for one in server.half_open(opened, 100):
        one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        one.close()
    answers(server)
    deadline_s = time.monotonic() + WAIT_S
    while server.num_files() > before:
        assert time.monotonic() < deadline_s
        time.sleep(0.1)


@pytest.mark.parametrize("path", ["/api/uploads", "/healthz", "/_dash-update-component"])
def test_a_request_with_two_lengths_is_refused_and_ends_the_connection(
    server: Flooded, opened: ExitStack, path: str
) -> None:
    head = f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {SECRET}\r\n"
    both = "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
    hidden = "GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
    (one,) = server.half_open(opened, 1, (head + both + hidden).encode())
    answer = b""
    while piece := one.recv(65_536):
        answer += piece
    assert answer.startswith(b"HTTP/1.1 400")
    assert b"Content-Length and Transfer-Encoding" in answer
    assert answer.count(b"HTTP/1.1") == 1
