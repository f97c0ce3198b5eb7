"""Uploads outlive their server: the next one goes on with them, or cleans up."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time

import pytest

import app.uploads.files
import app.uploads.importing
import app.uploads.uploads
from app.runs.hub import Hub
from app.server import make_app
from app.uploads.files import FileHead
from app.uploads.uploads import MOST_OF_ONE_TOKEN, Uploads
from ingest.errors import UserError
from tests.app.in_process import Client
from tests.app.uploads.sending import (
    UPLOADS_FOLDER,
    ended,
    endless,
    left,
    offset_of,
    patch,
    trace,
)

KILLED = """
import os, sys
from pathlib import Path
from app.uploads.files import FileHead
from app.uploads.uploads import Uploads, uploads_of
uploads = Uploads(Path(sys.argv[1]))
upload = uploads.create([FileHead("a.json", int(sys.argv[2]))])
upload.append(upload.claim(0, None), sys.stdin.buffer.read())
print(upload.storage.id, flush=True)
os._exit(0)
"""


def killed_server(runs, num_bytes, content):
    """Id of an upload that a server got this much of before it was killed."""
    done = subprocess.run(
        [sys.executable, "-c", KILLED, runs, str(num_bytes)],
        check=True,
        input=content,
        stdout=subprocess.PIPE,
    )
    return done.stdout.decode().strip()


def test_a_new_server_goes_on_with_what_a_killed_one_left(runs):
    content = trace(0)
    upload_id = killed_server(runs, len(content), content[:100])
    hub = Hub(runs)
    client = Client(make_app(hub))
    url = f"/api/uploads/{upload_id}"
    assert offset_of(client, url) == 100
    assert patch(client, url, 100, content[100:]).status_code == 204
    assert ended(client, url)["state"] == "done"
    client.close()
    hub.close()
    assert left(runs) == []


def test_a_new_server_imports_what_had_come_whole(runs):
    content = trace(0)
    upload_id = killed_server(runs, len(content), content)
    hub = Hub(runs)
    client = Client(make_app(hub))
    assert ended(client, f"/api/uploads/{upload_id}")["state"] == "done"
    client.close()
    hub.close()


def test_files_that_end_the_server_are_not_tried_for_ever(runs):
    content = trace(0)
    upload_id = killed_server(runs, len(content), content)
    (runs / UPLOADS_FOLDER / f"up-{upload_id}" / "tries").write_text("2")
    hub = Hub(runs)
    client = Client(make_app(hub))
    answer = ended(client, f"/api/uploads/{upload_id}")
    client.close()
    hub.close()
    assert "ended 2 times" in answer["error"]
    assert left(runs) == []


@pytest.mark.parametrize(
    ("file", "content"),
    [
        ("upload.json", b"{"),
        ("upload.json", b'{"files": [{"name": 1}]}'),
        ("files/a.json", b"more than announced"),
    ],
)
def test_what_is_damaged_is_removed(runs, file, content):
    upload_id = killed_server(runs, 10, b"123")
    (runs / UPLOADS_FOLDER / f"up-{upload_id}" / file).write_bytes(content)
    uploads = Uploads(runs)
    assert left(runs) == []
    uploads.close()


def test_an_upload_belongs_to_one_server(runs):
    first = Uploads(runs)
    upload = first.create([FileHead("a", 10)])
    second = Uploads(runs)
    with pytest.raises(UserError, match="no longer exists"):
        second.get(upload.storage.id)
    first.close()
    assert second.get(upload.storage.id).offset == 0
    second.close()


def test_what_nobody_comes_back_to_is_removed(runs, monkeypatch):
    uploads = Uploads(runs)
    old, new = (uploads.create([FileHead("a", 10)]) for _ in range(2))
    old.append(old.claim(0, None), b"1")
    litter = runs / ".import-killed"
    litter.mkdir()
    for folder in (old.storage.folder, litter):
        for path in (folder, *folder.rglob("*")):
            os.utime(path, (time.time() - 7200,) * 2)
    uploads.sweep()
    assert len(left(runs)) == 3  # by default they are kept for a day
    monkeypatch.setenv("RANKSCOPE_UPLOAD_KEEP_HOURS", "1")
    uploads.sweep()
    assert left(runs) == [new.storage.folder.name]
    with pytest.raises(UserError, match="no longer exists"):
        uploads.get(old.storage.id)
    uploads.close()


def test_a_server_that_stops_leaves_both_to_the_next_one(runs, monkeypatch):
    content = trace(0)
    monkeypatch.setattr(app.uploads.importing, "import_paths", endless)
    uploads = Uploads(runs)
    receiving = uploads.create([FileHead("a", 10)])
    receiving.append(receiving.claim(0, None), b"123")
    importing = uploads.create([FileHead("b.json", len(content))])
    importing.append(importing.claim(0, None), content)
    uploads.import_if_whole(importing)
    uploads.close()
    with pytest.raises(UserError, match="stopping"):
        uploads.create([FileHead("a", 1)])
    monkeypatch.undo()
    after = Uploads(runs)
    assert after.get(receiving.storage.id).offset == 3
    again = after.get(importing.storage.id)
    until = time.monotonic() + 60
    while again.state != "done":
        assert time.monotonic() < until, again.as_json()
        time.sleep(0.02)
    after.close()


def test_uploads_count_for_their_token_after_a_restart(runs):
    heads = [FileHead("a.json", 10)]
    first = Uploads(runs)
    for _ in range(MOST_OF_ONE_TOKEN):
        first.create(heads, "digest")
    first.close()
    second = Uploads(runs)
    with pytest.raises(UserError, match="with your token are in progress"):
        second.create(heads, "digest")
    second.create(heads, "another")
    second.close()


def test_an_upload_without_a_note_of_its_token_goes_on(runs):
    first = Uploads(runs)
    place = first.create([FileHead("a.json", 10)], "digest").storage
    first.close()
    listed = place.folder / "upload.json"
    listed.write_text(json.dumps({"files": json.loads(listed.read_text())["files"]}))
    second = Uploads(runs)
    assert second.get(place.id).storage.token == ""
    second.close()
