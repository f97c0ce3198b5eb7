"""A thousand uploads that are begun and never ended: others go on, and nothing grows."""

from __future__ import annotations

import json
import socket
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from tests.app.uploads.sending import STREAM, TUS, UPLOADS_FOLDER, listed, trace
from tests.faults.serving import Server, serving
from tests.waiting import wait_until

NUM = 1_000
AT_ONCE = 100
"""Connections of a test that are open at the same time."""
MOST_MORE_BYTES = 50 << 20


def begun(server: Server, *files: tuple[str, bytes]) -> tuple[int, dict[str, Any]]:
    """Status and answer of the request that begins an upload."""
    body = json.dumps(listed(*files)).encode()
    status, answer = server.ask("/api/uploads", "POST", body, **TUS)
    return status, json.loads(answer)


@contextmanager
def half_sent(server: Server, upload: str, num: int) -> Iterator[list[socket.socket]]:
    """Connections that have sent a part of an upload's bytes and nothing more."""
    host, port = server.address.split(":")
    head = "".join(f"{name}: {value}\r\n" for name, value in STREAM.items())
    opened = []
    try:
        for _ in range(num):
            one = socket.create_connection((host, int(port)), timeout=30)
            opened.append(one)
            with suppress(OSError):  # refused already
                one.sendall(
                    f"PATCH {upload} HTTP/1.1\r\nHost: {server.address}\r\n{head}"
                    "Upload-Offset: 0\r\nContent-Length: 900000\r\n\r\n".encode()
                    + b"x" * 1000
                )
        yield opened
    finally:
        for one in opened:
            one.close()


def num_files(runs: Path) -> int:
    return sum(1 for _ in (runs / UPLOADS_FOLDER).rglob("*"))


@pytest.mark.faults
def test_a_thousand_half_open_uploads_are_refused_in_time_and_leave_nothing(
    tmp_path: Path,
) -> None:
    runs, content = tmp_path / "runs", trace(0)
    runs.mkdir()
    with serving(runs, tmp_path) as server:
        status, honest = begun(server, ("a.json", content))
        assert status == 201
        url = f"/api/uploads/{honest['id']}"
        half = content[: len(content) // 2]
        assert patched(server, url, 0, half) == 204
        before_bytes, before_descriptors = server.resident_bytes(), server.num_descriptors()
        statuses, ids = Counter[int](), []
        for number in range(NUM):
            status, answer = begun(server, (f"{number}.json", b"x" * 900_000))
            statuses[status] += 1
            if status == 201:
                ids.append(answer["id"])
            else:
                assert status == 429
                assert "wait until one has finished" in answer["error"]
        assert statuses[429] > NUM / 2
        bound = num_files(runs)
        for first in range(0, NUM, AT_ONCE):
            upload = f"/api/uploads/{ids[first // AT_ONCE]}"
            with half_sent(server, upload, AT_ONCE):
                assert server.json(url)["offset"] == len(half)
                assert server.json("/healthz")["status"] == "ok"
        assert num_files(runs) == bound  # however many connections came
        assert patched(server, url, len(half), content[len(half) :]) == 204
        wait_until(lambda: server.json(url)["state"] in ("done", "failed"))
        assert server.json(url)["error"] is None
        for upload_id in ids:
            assert server.ask(f"/api/uploads/{upload_id}", "DELETE", **TUS)[0] == 204
        assert num_files(runs) == 0
        wait_until(lambda: server.num_descriptors() <= before_descriptors + 8)
        assert server.resident_bytes() < before_bytes + MOST_MORE_BYTES


def patched(server: Server, url: str, offset: int, content: bytes) -> int:
    """Status of a request that sends these bytes; again while too many others send."""
    given = {**STREAM, "Upload-Offset": str(offset)}
    statuses = []

    def is_taken() -> bool:
        statuses.append(server.ask(url, "PATCH", content, **given)[0])
        return statuses[-1] != 503

    wait_until(is_taken)
    return statuses[-1]
