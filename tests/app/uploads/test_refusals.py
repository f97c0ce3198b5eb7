"""What is refused before anything is kept: other protocols, lists that lie, quotas, roles."""

from __future__ import annotations

import threading

import pytest

import app.uploads.files
import app.uploads.importing
import app.uploads.uploads
from app.runs.hub import Hub
from app.server import make_app
from app.settings import Role, Settings, Token
from app.uploads.files import FileHead, parse_list
from app.uploads.uploads import Uploads
from ingest.errors import UserError
from tests.app.in_process import Client
from tests.app.uploads.sending import (
    STREAM,
    TUS,
    begun,
    create,
    left,
    offset_of,
    patch,
    trace,
)
from tests.runs_builder import two_rank_run


@pytest.mark.parametrize(
    ("change", "status", "message"),
    [
        ({"content-type": "text/plain"}, 415, "offset+octet-stream"),
        ({"upload-offset": "x"}, 409, "Upload-Offset"),
        ({"tus-resumable": "0.2"}, 412, "Tus-Resumable"),
        ({"upload-offset": "-1"}, 409, "Upload-Offset"),
    ],
)
def test_another_protocol_is_refused(client, change, status, message):
    url = begun(client, ("a", b"12345"))
    answer = patch(client, url, 0, b"123", **change)
    assert answer.status_code == status
    assert message in answer.json()["error"]
    assert offset_of(client, url) == 0


def test_more_bytes_than_announced_are_refused(client):
    url = begun(client, ("a", b"12345"))

    async def chunks():  # no Content-Length
        yield b"123456"

    for content in (b"123456", chunks()):
        answer = patch(client, url, 0, content)
        assert answer.status_code == 413
        assert "longer than" in answer.json()["error"]
    assert offset_of(client, url) == 0


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "malformed"),
        (b"{}", "malformed"),
        (b"[}", "malformed"),
        (b"[" * 100_000, "malformed"),
        (b'{"files": [{"n": 1}]}', "malformed"),
        (b'{"files": []}', "1 to 16384 files"),
        (b'{"files": [{"name": "a", "size": 0}]}', "empty"),
    ],
)
def test_a_list_that_lies_is_refused(client, runs, content, message):
    answer = client.request("POST", "/api/uploads", content=content, headers=TUS)
    assert answer.status_code == 400
    assert message in answer.json()["error"]
    assert left(runs) == []


@pytest.mark.parametrize("size", [-1, 1.5, "7", None, True])
def test_a_size_is_a_whole_number(size):
    with pytest.raises(UserError, match="not a whole number"):
        parse_list([{"name": "a", "size": size}], 100)


def test_beyond_the_quota_nothing_is_begun(client, runs, monkeypatch):
    monkeypatch.setenv("RANKSCOPE_MAX_UPLOAD_MB", "1")
    answer = create(client, ("a", b"x" * (2 << 20)))
    assert answer.status_code == 413
    assert "rankscope import" in answer.json()["error"]
    assert left(runs) == []


def test_too_little_room_is_refused_before_anything_is_sent(client, runs, monkeypatch):
    monkeypatch.setattr(app.uploads.files, "free_bytes", lambda _: (256 << 20) + 99)
    answer = create(client, ("a", b"x" * 100))
    assert answer.status_code == 507
    assert "free" in answer.json()["error"]
    assert create(client, ("a", b"x" * 60)).status_code == 201
    assert create(client, ("b", b"x" * 60)).status_code == 507  # the first one's bytes are to come
    assert len(left(runs)) == 1


def test_uploads_are_for_uploaders(runs):
    tokens = (
        Token("a-secret-for-viewers", Role.viewer),
        Token("a-secret-of-uploaders", Role.uploader),
    )
    hub = Hub(runs)
    client = Client(make_app(hub, settings=Settings(tokens=tokens)))
    may = {"authorization": "Bearer a-secret-of-uploaders"}
    answer = create(client, ("a.json", trace(0)), **may)
    url = f"/api/uploads/{answer.json()['id']}"
    for method in ("GET", "HEAD", "PATCH", "DELETE"):
        for headers, status in (({}, 401), ({"authorization": "Bearer a-secret-for-viewers"}, 403)):
            sent_headers = {**STREAM, "upload-offset": "0", **headers}
            assert client.request(method, url, headers=sent_headers).status_code == status
    viewer = create(client, ("a", b"1"), authorization="Bearer a-secret-for-viewers")
    foreign = create(client, ("a", b"1"), origin="http://evil.example", **may)
    taken = patch(client, url, 0, trace(0), **may)
    client.close()
    hub.close()
    assert (viewer.status_code, foreign.status_code, taken.status_code) == (403, 403, 204)
    assert "uploader" in viewer.json()["error"]


def test_one_run_served_takes_no_others(tmp_path):
    folder = two_rank_run(tmp_path / "a").folder
    uploads = Uploads(folder)
    with pytest.raises(UserError, match="one run"):
        uploads.create([FileHead("a", 1)])
    uploads.close()


@pytest.mark.parametrize("name", ["nope", "%2e%2e", "a%2fb", "*"])
def test_an_unknown_upload_is_a_sentence(client, name):
    answer = client.get(f"/api/uploads/{name}")
    assert answer.status_code in (404, 405)
    assert answer.json()["error"]


def test_there_is_an_end_to_uploads_under_way(runs, monkeypatch):
    monkeypatch.setattr(app.uploads.uploads, "MOST_UNFINISHED", 2)
    uploads = Uploads(runs)
    for _ in range(2):
        uploads.create([FileHead("a", 10)])
    with pytest.raises(UserError, match="2 uploads are in progress"):
        uploads.create([FileHead("a", 10)])
    uploads.close()


def test_uploads_that_wait_for_their_import_count(client, monkeypatch):
    monkeypatch.setattr(app.uploads.uploads, "MOST_UNFINISHED", 2)
    is_over = threading.Event()

    def import_slowly(*_):
        is_over.wait()
        raise UserError("these are no traces")

    monkeypatch.setattr(app.uploads.uploads, "import_files", import_slowly)
    for number in range(2):
        patch(client, begun(client, ("a.json", trace(number))), 0, trace(number))
    refused = create(client, ("a.json", trace(2)))
    is_over.set()
    assert refused.status_code == 429
    assert "2 uploads are in progress" in refused.json()["error"]
