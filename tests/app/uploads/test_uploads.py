"""Uploads that stop and go on: breaks, second connections, full disks, giving up."""

from __future__ import annotations

import errno

import pytest

import app.uploads.files
import app.uploads.importing
import app.uploads.uploads
from app.uploads.errors import Busy
from app.uploads.files import FileHead, Files
from app.uploads.uploads import Uploads, uploads_of
from ingest.errors import UserError
from tests.app.uploads.sending import (
    STREAM,
    TUS,
    begun,
    ended,
    left,
    offset_of,
    patch,
    trace,
)


def test_an_upload_goes_on_where_it_stopped(client, runs):
    content = trace(0, 200)
    url = begun(client, ("a.json", content))
    assert patch(client, url, 0, content[:1000]).headers["upload-offset"] == "1000"
    assert offset_of(client, url) == 1000
    answer = client.get(url).json()
    assert (answer["state"], answer["offset"], answer["is_sending"]) == ("receiving", 1000, False)
    wrong = patch(client, url, 999, content[999:])
    assert wrong.status_code == 409
    assert "1000 bytes have arrived" in wrong.json()["error"]
    assert patch(client, url, 1000, content[1000:]).status_code == 204
    assert ended(client, url)["state"] == "done"


def test_what_came_before_the_connection_broke_counts(client, runs):
    content = trace(0, 30_000)
    assert len(content) > 2_500_000
    url = begun(client, ("a.json", content))
    client.leave("PATCH", url, content[:2_200_001], 0.05, **STREAM, **{"upload-offset": "0"})
    assert offset_of(client, url) == 2_200_001
    assert patch(client, url, 2_200_001, content[2_200_001:]).status_code == 204
    assert ended(client, url)["state"] == "done"
    assert left(runs) == []


def test_two_connections_never_mix(runs, monkeypatch):
    uploads = Uploads(runs)
    upload = uploads.create([FileHead("a", 10)])
    first = upload.claim(0, None)
    upload.append(first, b"12")
    with pytest.raises(Busy, match="another connection"):
        upload.claim(2, None)
    monkeypatch.setattr(
        app.uploads.uploads, "QUIET_S", 0.0
    )  # the first one was cut and nobody noticed
    second = upload.claim(2, None)
    with pytest.raises(Busy, match="is sending these files"):
        upload.append(first, b"XX")
    upload.append(second, b"34")
    upload.release(first)
    upload.append(second, b"5")
    assert upload.storage.files.paths[0].read_bytes() == b"12345"
    uploads.close()


def test_a_second_connection_has_to_wait(client, hub):
    url = begun(client, ("a.json", b"x" * 100))
    uploads_of(hub).get(url.rsplit("/", 1)[1]).claim(0, None)
    answer = patch(client, url, 0, b"y")
    assert answer.status_code == 423
    assert offset_of(client, url) == 0


def test_a_disk_that_fills_up_keeps_what_came(client, monkeypatch):
    content = trace(0)
    url = begun(client, ("a.json", content))
    assert patch(client, url, 0, content[:10]).status_code == 204
    monkeypatch.setattr(app.uploads.files, "free_bytes", lambda _: 256 << 20)
    answer = patch(client, url, 10, content[10:])
    assert answer.status_code == 507
    assert "make room" in answer.json()["error"]
    monkeypatch.undo()
    assert offset_of(client, url) == 10
    assert patch(client, url, 10, content[10:]).status_code == 204
    assert ended(client, url)["state"] == "done"


def test_a_write_that_fails_half_way_is_counted_from_the_disk(tmp_path, monkeypatch):
    files = Files(tmp_path / "files", [FileHead("a", 4), FileHead("b", 4)])
    real, calls = Files._write, []

    def full(self, content):
        calls.append(len(content))
        if len(calls) == 2:
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(self, content)

    monkeypatch.setattr(Files, "_write", full)
    with pytest.raises(UserError, match="full"):
        files.append(b"aaaabb")
    assert files.offset == 4
    files.append(b"bbbb")
    assert files.is_whole


def test_an_upload_given_up_leaves_nothing(client, runs):
    url = begun(client, ("a", b"12345"))
    patch(client, url, 0, b"123")
    assert client.request("DELETE", url, headers=TUS).status_code == 204
    assert left(runs) == []
    for method in ("HEAD", "PATCH", "DELETE", "GET"):
        sent_headers = {**STREAM, "upload-offset": "3"}
        assert client.request(method, url, headers=sent_headers, content=b"45").status_code == 404
    assert "no longer exists" in client.get(url).json()["error"]
