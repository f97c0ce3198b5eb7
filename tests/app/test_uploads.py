"""Uploads through the server, in process: what arrives, what is refused, what is left behind."""

from __future__ import annotations

import errno
import gzip
import json
import subprocess
import sys
import time
from pathlib import Path

import pytest

import app.upload_places
import app.uploads
from app.hub import Hub
from app.server import make_app
from app.settings import Role, Settings, Token
from app.uploads import Receiver, parse_list, safe_name
from ingest.errors import UserError
from tests.app.in_process import Client

PLACE = ".uploads"


def trace(rank, num_steps=2):
    """A small torch.profiler trace."""
    events = [
        {"ph": "X", "cat": "user_annotation", "name": f"ProfilerStep#{step}", "pid": 1, "tid": 1,
         "ts": 1000.0 * step, "dur": 900.0}
        for step in range(num_steps)
    ]  # fmt: skip
    return json.dumps(
        {
            "schemaVersion": 1,
            "distributedInfo": {"backend": "gloo", "rank": rank, "world_size": 2},
            "traceEvents": events,
        }
    ).encode()


def body(*files):
    heads = [{"name": name, "size": len(content)} for name, content in files]
    told = json.dumps(heads).encode()
    return len(told).to_bytes(4, "little") + told + b"".join(content for _, content in files)


@pytest.fixture
def runs(tmp_path):
    folder = tmp_path / "runs"
    folder.mkdir()
    return folder


@pytest.fixture
def client(runs):
    hub = Hub(runs)
    client = Client(make_app(hub))
    yield client
    client.close()
    hub.close()


def post(client, content, media="application/x-rankscope-files", **headers):
    given = {"content-type": media, **headers}
    return client.request("POST", "/api/uploads", content=content, headers=given)


def imported(client, content):
    answer = post(client, content)
    assert answer.status_code == 202, answer.text
    until = time.monotonic() + 20
    while time.monotonic() < until:
        job = client.get(f"/api/uploads/{answer.json()['import']}").json()
        if job["state"] != "importing":
            return job
        time.sleep(0.02)
    raise AssertionError("the import did not end")


def left(runs):
    """Names below the place of uploads, and of imports that were not finished."""
    place = runs / PLACE
    unfinished = [path.name for path in runs.glob(".import-*")]
    return sorted(path.name for path in place.iterdir()) + unfinished if place.is_dir() else []


def test_files_of_one_job_become_one_run(client, runs):
    job = imported(client, body(("a.json", trace(0)), ("b.json.gz", gzip.compress(trace(1)))))
    assert job["error"] is None
    assert job["state"] == "done"
    assert not job["is_known"]
    listed = {run["name"] for run in client.get("/api/runs").json()["runs"]}
    assert job["run"] in listed
    info = json.loads((runs / job["run"] / "run.json").read_text())
    assert info["provenance"][0].startswith("a.json (")
    assert left(runs) == []


def test_the_same_files_again_are_the_same_run(client, runs):
    first = imported(client, body(("a.json", trace(0))))
    again = imported(client, body(("other name.json", trace(0))))
    assert again["run"] == first["run"]
    assert again["is_known"]


def test_what_cannot_be_read_is_one_sentence_and_leaves_nothing(client, runs):
    job = imported(client, body(("notes.txt", b"no trace at all")))
    assert job["state"] == "failed"
    assert "notes.txt" in job["error"]
    assert PLACE not in job["error"]
    assert "\n" not in job["error"]
    assert left(runs) == []
    assert client.get("/api/runs").json()["runs"] == []


def test_a_damaged_file_of_many_is_a_problem_of_the_run(client):
    job = imported(client, body(("a.json", trace(0)), ("b.json", b"{\x00")))
    assert job["state"] == "done"
    assert any("b.json" in problem for problem in job["problems"])


def test_two_files_of_one_name_are_both_read(client):
    job = imported(client, body(("t.json", trace(0)), ("t.json", trace(1))))
    rows = client.get("/api/runs").json()["runs"]
    until = time.monotonic() + 10
    while rows[0]["state"] == "indexing" and time.monotonic() < until:
        time.sleep(0.05)
        rows = client.get("/api/runs").json()["runs"]
    assert job["state"] == "done"
    assert rows[0]["num_ranks"] == 2


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "before all its files"),
        (body(("a", b"12345"))[:-2], "before all its files"),
        (body(("a", b"12345")) + b"6", "longer than"),
        (b"\xff\xff\xff\xff" + b"x" * 100, "has no end"),
        ((2).to_bytes(4, "little") + b"{}", "1 to 16384 files"),
        ((2).to_bytes(4, "little") + b"[}", "damaged"),
        ((10).to_bytes(4, "little") + b'[{"n": 1}]', "damaged"),
    ],
)
def test_a_body_that_lies_is_refused(client, runs, content, says):
    answer = post(client, content)
    assert answer.status_code == 400
    assert says in answer.json()["error"]
    assert left(runs) == []


@pytest.mark.parametrize("size", [-1, 1.5, "7", None, True])
def test_a_size_is_a_whole_number(size):
    with pytest.raises(UserError, match="no whole number"):
        parse_list(json.dumps([{"name": "a", "size": size}]).encode(), 100)


def test_too_many_bytes_are_refused_by_their_length_and_by_their_list(client, runs, monkeypatch):
    monkeypatch.setenv("RANKSCOPE_MAX_UPLOAD_MB", "1")
    answer = post(client, body(("a", b"x" * (2 << 20))))
    assert answer.status_code == 413
    assert "rankscope import" in answer.json()["error"]
    told = json.dumps([{"name": "a", "size": 2 << 20}]).encode()

    async def chunks():  # no Content-Length
        yield len(told).to_bytes(4, "little") + told

    assert post(client, chunks()).status_code == 413
    assert left(runs) == []


def test_a_full_disk_is_a_sentence(client, runs, monkeypatch):
    def full(self, content):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Receiver, "_write", full)
    answer = post(client, body(("a.json", trace(0))))
    assert answer.status_code == 507
    assert "disk" in answer.json()["error"]
    assert "full" in answer.json()["error"]
    assert left(runs) == []


def test_another_media_type_is_refused(client):
    assert post(client, body(("a", b"1")), media="text/plain").status_code == 415


def test_a_viewer_may_not_upload(runs):
    tokens = Token("for-viewers", Role.viewer), Token("uploaders", Role.uploader)
    hub = Hub(runs)
    client = Client(make_app(hub, settings=Settings(tokens=tokens)))
    refused = post(client, body(("a", b"1")), authorization="Bearer for-viewers")
    taken = post(client, body(("a.json", trace(0))), authorization="Bearer uploaders")
    client.close()
    hub.close()
    assert refused.status_code == 403
    assert "uploader" in refused.json()["error"]
    assert taken.status_code == 202


def test_one_run_served_takes_no_others(tmp_path):
    (tmp_path / "run.json").write_text("{}")
    with pytest.raises(UserError, match="one run"):
        Receiver(tmp_path, 100)


@pytest.mark.parametrize(
    ("name", "safe"),
    [
        ("../../etc/passwd", "passwd"),
        ("C:\\traces\\rank-3.json.gz", "rank-3.json.gz"),
        (".hidden", "hidden"),
        ("..", "file"),
        ("", "file"),
        ("a\x00b\n\x1b.json", "a_b__.json"),
        ("<script>.json", "_script_.json"),
        ("übung 1.json", "übung 1.json"),
    ],
)
def test_names_have_no_folders_and_no_surprises(name, safe):
    assert safe_name(name) == safe


def test_long_names_keep_their_ending():
    name = safe_name("é" * 300 + ".json.gz")
    assert name.endswith(".json.gz")
    assert len(name.encode()) <= 160


def test_a_browser_that_leaves_leaves_nothing(client, runs):
    whole = body(("a", b"x" * 3_000_000))
    media = {"content-type": "application/x-rankscope-files"}
    client.leave("POST", "/api/uploads", whole[:2_000_000], 0.05, **media)
    assert (runs / PLACE).is_dir()
    assert left(runs) == []


def test_bytes_are_written_as_they_come(runs):
    receiver = Receiver(runs, 1000)
    for byte in body(("a", b"123"), ("empty", b""), ("b", b"45")):
        receiver.feed(bytes([byte]))
    receiver.finish()
    assert [path.read_bytes() for path in receiver.paths] == [b"123", b"", b"45"]


def test_an_import_can_be_cancelled(client, runs, monkeypatch):
    real = app.uploads.import_paths

    def slow(paths, folder, progress):
        until = time.monotonic() + 20
        while time.monotonic() < until:
            progress(1, 2)
            time.sleep(0.01)
        return real(paths, folder, progress)

    monkeypatch.setattr(app.uploads, "import_paths", slow)
    import_id = post(client, body(("a.json", trace(0)))).json()["import"]
    assert client.get(f"/api/uploads/{import_id}").json()["state"] == "importing"
    client.request("DELETE", f"/api/uploads/{import_id}")
    until = time.monotonic() + 10
    while (job := client.get(f"/api/uploads/{import_id}").json())["state"] == "importing":
        assert time.monotonic() < until
        time.sleep(0.02)
    assert "cancelled" in job["error"]
    assert left(runs) == []


def test_an_unknown_import_is_a_sentence(client):
    answer = client.get("/api/uploads/nope")
    assert answer.status_code == 400
    assert "not known" in answer.json()["error"]


def test_what_a_killed_server_left_goes_after_a_day(runs, monkeypatch):
    old = runs / PLACE / "up-0"
    old.mkdir(parents=True)
    (old / "a").write_bytes(b"1")
    Receiver(runs, 10).remove()
    assert old.is_dir()
    monkeypatch.setattr(app.upload_places, "_STALE_S", -1.0)
    Receiver(runs, 10).remove()
    assert not Path(old).exists()


KILLED = """
import os, sys
from pathlib import Path
from app.uploads import Receiver
Receiver(Path(sys.argv[1]), 10)
os._exit(0)
"""


def test_a_new_server_removes_what_a_killed_one_left_and_no_upload_under_way(runs):
    under_way = Receiver(runs, 10)
    subprocess.run([sys.executable, "-c", KILLED, runs], check=True)
    assert len(left(runs)) == 2
    hub = Hub(runs)
    make_app(hub)
    hub.close()
    assert left(runs) == [under_way.folder.name]
    under_way.remove()
    assert left(runs) == []


def test_a_server_that_stops_leaves_no_upload(runs, monkeypatch):
    def stuck(*_given):
        time.sleep(1.0)
        raise UserError("cancelled")

    monkeypatch.setattr(app.uploads, "import_paths", stuck)
    imports = app.uploads.Imports(runs)
    receiving, importing = imports.receive(1000), imports.receive(1000)
    receiving.feed(body(("a", b"123"))[:-1])
    importing.feed(body(("b", b"123")))
    imports.start(importing)
    begun_s = time.monotonic()
    imports.close(limit_s=0.1)
    assert time.monotonic() - begun_s < 0.9
    assert left(runs) == []
    with pytest.raises(UserError, match="stopping"):
        imports.receive(1000)
