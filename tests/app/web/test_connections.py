"""How long a connection may do nothing, at the real server with shortened times."""

from __future__ import annotations

import json
import re
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from app.routes import query
from app.settings import Settings, Token
from app.web import bounded_http, connections
from app.web.request_queue import FILES_OF_ONE_SESSION
from tests.app.server.served import WAIT_S, Served, served
from tests.hostile.requests.flooded import is_closed
from tests.runs_builder import two_rank_run

SECRET = "correct-horse-battery"
KNOWN = f"Host: 127.0.0.1\r\nAuthorization: Bearer {SECRET}\r\n"
LARGE = "/_dash-component-suites/plotly/package_data/plotly.min.js"
SOON_S = 1.0


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Served]:
    monkeypatch.setattr(bounded_http, "BODY_IDLE_S", SOON_S)
    monkeypatch.setattr(bounded_http, "UNKNOWN_KEEP_ALIVE_S", SOON_S)
    monkeypatch.setattr(connections, "STALLED_S", SOON_S)
    with served(tmp_path, Settings(port=0, tokens=(Token(SECRET),))) as running:
        yield running


def opened(server: Served, sent: str, receive_buffer: int = 0) -> socket.socket:
    one = socket.socket()
    if receive_buffer:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
    one.settimeout(WAIT_S)
    one.connect(("127.0.0.1", server.port))
    one.sendall(sent.encode())
    return one


def test_a_body_may_pause_for_a_while_and_take_as_long_as_it_comes(server: Served) -> None:
    body = json.dumps({"files": [{"name": "a.json", "size": 1}]}).encode()
    head = f"POST /api/uploads HTTP/1.1\r\n{KNOWN}Tus-Resumable: 1.0.0\r\n"
    head += f"Content-Length: {len(body)}\r\n\r\n"
    with opened(server, head) as slow, opened(server, head) as silent:
        silent.sendall(body[:3])
        for start in range(0, len(body), 8):
            slow.sendall(body[start : start + 8])
            time.sleep(SOON_S / 2)
        assert slow.recv(100).startswith(b"HTTP/1.1 201")
        assert is_closed(silent, 10 * SOON_S)


def test_a_stranger_keeps_no_connection_for_long_and_others_do(server: Served) -> None:
    with (
        opened(server, "GET /api/runs HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n") as stranger,
        opened(server, f"GET /api/runs HTTP/1.1\r\n{KNOWN}\r\n") as known,
    ):
        assert is_closed(stranger, 10 * SOON_S)
        assert not is_closed(known, SOON_S)


@pytest.mark.long
def test_a_file_that_is_read_byte_by_byte_is_cut_and_gives_its_place_back(
    server: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(query, "FILE_LIMIT_S", 3 * SOON_S)
    monkeypatch.setattr(connections, "STALLED_S", WAIT_S)
    two_rank_run(server.hub.store.folder / "job")
    path = "/api/run/job/query.csv"
    body = json.dumps({"sql": "SELECT range, repeat('x', 1000) FROM range(100000)"})
    head = f"POST {path} HTTP/1.1\r\n{KNOWN}Content-Length: {len(body)}\r\n\r\n{body}"

    def status() -> int:
        one = json.dumps({"sql": "SELECT 1"}).encode()
        return server.ask(path, "POST", one, Authorization=f"Bearer {SECRET}")[0]

    with ExitStack() as files:
        readers = [
            files.enter_context(opened(server, head, receive_buffer=4096))
            for _ in range(FILES_OF_ONE_SESSION)
        ]
        for reader in readers:
            assert reader.recv(1)
        assert status() == 503
        until_s = time.monotonic() + 20 * SOON_S
        while status() == 503:
            for reader in readers:
                with suppress(ConnectionResetError):
                    reader.recv(1)  # it takes something all the time
            time.sleep(SOON_S / 10)
            assert time.monotonic() < until_s
        for reader in readers:
            received = b""
            with suppress(ConnectionResetError):
                while piece := reader.recv(65_536):
                    received += piece
            assert not received.endswith(b"0\r\n\r\n")  # the end of a file that is whole


@pytest.mark.long
def test_a_client_that_takes_nothing_of_its_answer_is_dropped(server: Served) -> None:
    with opened(server, f"GET {LARGE} HTTP/1.1\r\n{KNOWN}\r\n", receive_buffer=4096) as one:
        time.sleep(6 * SOON_S)
        received = b""
        while piece := one.recv(65_536):  # until the server has closed it
            received += piece
        length = re.search(rb"content-length: (\d+)", received)
        assert length is not None
        assert len(received) < int(length[1])
