"""Uploads through the server, in process: what arrives, what is refused, what is left behind."""

from __future__ import annotations

import errno
import gzip
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

import app.upload_files
import app.uploads
from app.hub import Hub
from app.server import make_app
from app.settings import Role, Settings, Token
from app.upload_errors import Busy
from app.upload_files import FileHead, Files, parse_list, run_name, safe_name, safe_place, title
from app.uploads import Uploads, uploads_of
from ingest.errors import UserError
from tests.app.in_process import Client
from tests.runs_builder import two_rank_run

PLACE = ".uploads"
TUS = {"tus-resumable": "1.0.0"}
STREAM = {**TUS, "content-type": "application/offset+octet-stream"}


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


@pytest.fixture
def runs(tmp_path):
    folder = tmp_path / "runs"
    folder.mkdir()
    return folder


@pytest.fixture
def hub(runs):
    hub = Hub(runs)
    yield hub
    hub.close()


@pytest.fixture
def client(hub):
    client = Client(make_app(hub))
    yield client
    client.close()


def listed(*files):
    return {"files": [{"name": name, "size": len(content)} for name, content in files]}


def create(client, *files, **headers):
    return client.request("POST", "/api/uploads", json=listed(*files), headers=TUS | headers)


def begun(client, *files):
    """Address of a new upload."""
    answer = create(client, *files)
    assert answer.status_code == 201, answer.text
    assert answer.headers["location"] == f"uploads/{answer.json()['id']}"
    return f"/api/{answer.headers['location']}"


def patch(client, url, offset, content, **headers):
    given = {**STREAM, "upload-offset": str(offset), **headers}
    return client.request("PATCH", url, content=content, headers=given)


def offset_of(client, url):
    answer = client.request("HEAD", url, headers=TUS)
    assert answer.status_code == 200
    assert answer.headers["cache-control"] == "no-store"
    return int(answer.headers["upload-offset"])


def ended(client, url):
    """What the server tells of it once its import has ended."""
    until = time.monotonic() + 20
    while time.monotonic() < until:
        told = client.get(url).json()
        if told["state"] in ("done", "failed"):
            return told
        time.sleep(0.02)
    raise AssertionError(f"the import did not end: {told}")


def imported(client, *files):
    url = begun(client, *files)
    answer = patch(client, url, 0, b"".join(content for _, content in files))
    assert answer.status_code == 204, answer.text
    return ended(client, url)


def left(runs):
    """Names below the place of uploads, and of imports that were not finished."""
    place = runs / PLACE
    unfinished = [path.name for path in runs.glob(".import-*")]
    return sorted(path.name for path in place.iterdir()) + unfinished if place.is_dir() else []


def test_files_of_one_job_become_one_run(client, runs):
    told = imported(client, ("a.json", trace(0)), ("b.json.gz", gzip.compress(trace(1))))
    assert told["error"] is None
    assert told["state"] == "done"
    assert not told["is_known"]
    assert told["offset"] == told["total_bytes"]
    assert told["run"] in {run["name"] for run in client.get("/api/runs").json()["runs"]}
    info = json.loads((runs / told["run"] / "run.json").read_text())
    assert info["provenance"][0].startswith("a.json (")
    assert left(runs) == []


def test_a_folder_is_a_run_of_its_name_and_keeps_its_paths(client, runs):
    told = imported(client, ("job 7/host/a.json", trace(0)), ("job 7/b.json", trace(1)))
    assert told["title"] == "job 7"
    assert told["run"].startswith("job-7-")
    info = json.loads((runs / told["run"] / "run.json").read_text())
    assert {line.split(" (")[0] for line in info["provenance"][:2]} == {
        "job 7/host/a.json", "job 7/b.json",
    }  # fmt: skip


def test_the_same_files_again_are_the_same_run(client):
    first = imported(client, ("a.json", trace(0)))
    again = imported(client, ("other name.json", trace(0)))
    assert again["run"] == first["run"]
    assert again["is_known"]


def test_what_cannot_be_read_is_one_sentence_and_leaves_nothing(client, runs):
    told = imported(client, ("notes.txt", b"no trace at all"))
    assert told["state"] == "failed"
    assert "notes.txt" in told["error"]
    assert PLACE not in told["error"]
    assert "\n" not in told["error"]
    assert left(runs) == []
    assert client.get("/api/runs").json()["runs"] == []


def test_a_damaged_file_of_many_is_a_problem_of_the_run(client):
    told = imported(client, ("a.json", trace(0)), ("b.json", b"{\x00"))
    assert told["state"] == "done"
    assert any("b.json" in problem for problem in told["problems"])


def test_two_files_of_one_name_are_both_read(client):
    told = imported(client, ("t.json", trace(0)), ("t.json", trace(1)))
    rows = client.get("/api/runs").json()["runs"]
    until = time.monotonic() + 10
    while rows[0]["state"] == "indexing" and time.monotonic() < until:
        time.sleep(0.05)
        rows = client.get("/api/runs").json()["runs"]
    assert told["state"] == "done"
    assert rows[0]["num_ranks"] == 2


def test_an_upload_goes_on_where_it_stopped(client, runs):
    content = trace(0, 200)
    url = begun(client, ("a.json", content))
    assert patch(client, url, 0, content[:1000]).headers["upload-offset"] == "1000"
    assert offset_of(client, url) == 1000
    told = client.get(url).json()
    assert (told["state"], told["offset"], told["is_sending"]) == ("receiving", 1000, False)
    wrong = patch(client, url, 999, content[999:])
    assert wrong.status_code == 409
    assert "1000 bytes are here" in wrong.json()["error"]
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
    monkeypatch.setattr(app.uploads, "QUIET_S", 0.0)  # the first one was cut and nobody noticed
    second = upload.claim(2, None)
    with pytest.raises(Busy, match="goes on"):
        upload.append(first, b"XX")
    upload.append(second, b"34")
    upload.release(first)
    upload.append(second, b"5")
    assert upload.place.files.paths[0].read_bytes() == b"12345"
    uploads.close()


def test_a_second_connection_is_told_to_wait(client, hub):
    url = begun(client, ("a.json", b"x" * 100))
    uploads_of(hub).get(url.rsplit("/", 1)[1]).claim(0, None)
    answer = patch(client, url, 0, b"y")
    assert answer.status_code == 423
    assert offset_of(client, url) == 0


@pytest.mark.parametrize(
    ("change", "status", "says"),
    [
        ({"content-type": "text/plain"}, 415, "offset+octet-stream"),
        ({"upload-offset": "x"}, 409, "Upload-Offset"),
        ({"tus-resumable": "0.2"}, 412, "Tus-Resumable"),
        ({"upload-offset": "-1"}, 409, "Upload-Offset"),
    ],
)
def test_another_protocol_is_refused(client, change, status, says):
    url = begun(client, ("a", b"12345"))
    answer = patch(client, url, 0, b"123", **change)
    assert answer.status_code == status
    assert says in answer.json()["error"]
    assert offset_of(client, url) == 0


def test_more_bytes_than_told_are_refused(client):
    url = begun(client, ("a", b"12345"))

    async def chunks():  # no Content-Length
        yield b"123456"

    for content in (b"123456", chunks()):
        answer = patch(client, url, 0, content)
        assert answer.status_code == 413
        assert "longer than" in answer.json()["error"]
    assert offset_of(client, url) == 0


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "damaged"),
        (b"{}", "damaged"),
        (b"[}", "damaged"),
        (b"[" * 100_000, "damaged"),
        (b'{"files": [{"n": 1}]}', "damaged"),
        (b'{"files": []}', "1 to 16384 files"),
        (b'{"files": [{"name": "a", "size": 0}]}', "empty"),
    ],
)
def test_a_list_that_lies_is_refused(client, runs, content, says):
    answer = client.request("POST", "/api/uploads", content=content, headers=TUS)
    assert answer.status_code == 400
    assert says in answer.json()["error"]
    assert left(runs) == []


@pytest.mark.parametrize("size", [-1, 1.5, "7", None, True])
def test_a_size_is_a_whole_number(size):
    with pytest.raises(UserError, match="no whole number"):
        parse_list([{"name": "a", "size": size}], 100)


def test_beyond_the_quota_nothing_is_begun(client, runs, monkeypatch):
    monkeypatch.setenv("RANKSCOPE_MAX_UPLOAD_MB", "1")
    answer = create(client, ("a", b"x" * (2 << 20)))
    assert answer.status_code == 413
    assert "rankscope import" in answer.json()["error"]
    assert left(runs) == []


def test_too_little_room_is_told_before_anything_is_sent(client, runs, monkeypatch):
    monkeypatch.setattr(app.upload_files, "free_bytes", lambda _: (256 << 20) + 99)
    answer = create(client, ("a", b"x" * 100))
    assert answer.status_code == 507
    assert "free" in answer.json()["error"]
    assert create(client, ("a", b"x" * 60)).status_code == 201
    assert create(client, ("b", b"x" * 60)).status_code == 507  # the first one's bytes are to come
    assert len(left(runs)) == 1


def test_a_disk_that_fills_up_keeps_what_came(client, monkeypatch):
    content = trace(0)
    url = begun(client, ("a.json", content))
    assert patch(client, url, 0, content[:10]).status_code == 204
    monkeypatch.setattr(app.upload_files, "free_bytes", lambda _: 256 << 20)
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


def test_uploads_are_for_uploaders(runs):
    tokens = Token("for-viewers", Role.viewer), Token("uploaders", Role.uploader)
    hub = Hub(runs)
    client = Client(make_app(hub, settings=Settings(tokens=tokens)))
    may = {"authorization": "Bearer uploaders"}
    answer = create(client, ("a.json", trace(0)), **may)
    url = f"/api/uploads/{answer.json()['id']}"
    for method in ("GET", "HEAD", "PATCH", "DELETE"):
        for headers, status in (({}, 401), ({"authorization": "Bearer for-viewers"}, 403)):
            given = {**STREAM, "upload-offset": "0", **headers}
            assert client.request(method, url, headers=given).status_code == status
    viewer = create(client, ("a", b"1"), authorization="Bearer for-viewers")
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


@pytest.mark.parametrize(
    ("name", "place"),
    [
        ("../../etc/passwd", "etc/passwd"),
        ("/etc/passwd", "etc/passwd"),
        ("a/./../b//c.json", "a/b/c.json"),
        ("job\\rank-3.json", "job/rank-3.json"),
        ("/", "file"),
        ("/".join("abcdefghijk"), "d/e/f/g/h/i/j/k"),
    ],
)
def test_places_are_below_their_folder(name, place):
    assert safe_place(name) == Path(place)


def test_long_names_keep_their_ending():
    name = safe_name("é" * 300 + ".json.gz")
    assert name.endswith(".json.gz")
    assert len(name.encode()) <= 160


def test_files_and_folders_of_one_name_get_out_of_each_others_way(tmp_path):
    names = ["a", "a/b", "c/d", "c", "a", "again-1/b"]
    files = Files(tmp_path / "files", [FileHead(name, 1) for name in names])
    files.append(b"123456")
    found = {path.relative_to(tmp_path / "files") for path in (tmp_path / "files").rglob("*")
             if path.is_file()}  # fmt: skip
    assert len(found) == len(names)
    assert {Path("a"), Path("c/d"), Path("again-1/b")} < found


def test_what_an_upload_is_called():
    def called(*names):
        return title([FileHead(name, 1) for name in names])

    assert called("a.json") == "a.json"
    assert called("job/a.json", "job/b.json") == "job"
    assert called("a.json", "b.json") == "2 files"


@pytest.mark.parametrize(
    ("names", "called"),
    [
        (["a.json"], "a.json"),
        (["job/a.json", "job/b.json"], "job"),
        (["meta.yaml", "trace.parquet"], "trace.parquet"),
        (["a.txt", "b.log"], "a.txt"),
    ],
)
def test_what_a_run_is_called(names, called):
    assert run_name([FileHead(name, 1) for name in names]) == called


def test_bytes_are_written_as_they_come_whatever_their_borders(tmp_path):
    files = Files(
        tmp_path / "files", [FileHead(n, s) for n, s in (("e", 0), ("a", 3), ("f", 0), ("b", 2))]
    )
    for byte in b"12345":
        files.append(bytes([byte]))
    assert files.is_whole
    assert [path.read_bytes() for path in files.paths] == [b"", b"123", b"", b"45"]


def test_an_import_can_be_cancelled(client, runs, monkeypatch):
    monkeypatch.setattr(app.uploads, "import_paths", endless)
    url = begun(client, ("a.json", trace(0)))
    patch(client, url, 0, trace(0))
    until = time.monotonic() + 10
    while client.get(url).json()["state"] != "importing":
        assert time.monotonic() < until
    assert client.request("DELETE", url, headers=TUS).status_code == 204
    assert "cancelled" in ended(client, url)["error"]
    assert left(runs) == []


def endless(_paths, _folder, progress, _name, _on_file):
    until = time.monotonic() + 20
    while time.monotonic() < until:
        progress(1, 2)
        time.sleep(0.01)
    raise AssertionError("nobody cancelled")


def test_an_upload_given_up_leaves_nothing(client, runs):
    url = begun(client, ("a", b"12345"))
    patch(client, url, 0, b"123")
    assert client.request("DELETE", url, headers=TUS).status_code == 204
    assert left(runs) == []
    for method in ("HEAD", "PATCH", "DELETE", "GET"):
        given = {**STREAM, "upload-offset": "3"}
        assert client.request(method, url, headers=given, content=b"45").status_code == 404
    assert "not known" in client.get(url).json()["error"]


@pytest.mark.parametrize("name", ["nope", "%2e%2e", "a%2fb", "*"])
def test_an_unknown_upload_is_a_sentence(client, name):
    answer = client.get(f"/api/uploads/{name}")
    assert answer.status_code in (404, 405)
    assert answer.json()["error"]


KILLED = """
import os, sys
from pathlib import Path
from app.upload_files import FileHead
from app.uploads import Uploads, uploads_of
uploads = Uploads(Path(sys.argv[1]))
upload = uploads.create([FileHead("a.json", int(sys.argv[2]))])
upload.append(upload.claim(0, None), sys.stdin.buffer.read())
print(upload.place.id, flush=True)
os._exit(0)
"""


def killed_server(runs, num_bytes, content):
    """Id of an upload that a server got this much of before it was killed."""
    done = subprocess.run(
        [sys.executable, "-c", KILLED, runs, str(num_bytes)], check=True, input=content,
        stdout=subprocess.PIPE,
    )  # fmt: skip
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
    (runs / PLACE / f"up-{upload_id}" / "tries").write_text("2")
    hub = Hub(runs)
    client = Client(make_app(hub))
    told = ended(client, f"/api/uploads/{upload_id}")
    client.close()
    hub.close()
    assert "ended 2 times" in told["error"]
    assert left(runs) == []


@pytest.mark.parametrize(
    ("file", "content"),
    [
        ("upload.json", b"{"),
        ("upload.json", b'{"files": [{"name": 1}]}'),
        ("files/a.json", b"more than was told"),
    ],
)
def test_what_is_damaged_is_removed(runs, file, content):
    upload_id = killed_server(runs, 10, b"123")
    (runs / PLACE / f"up-{upload_id}" / file).write_bytes(content)
    uploads = Uploads(runs)
    assert left(runs) == []
    uploads.close()


def test_an_upload_belongs_to_one_server(runs):
    first = Uploads(runs)
    upload = first.create([FileHead("a", 10)])
    second = Uploads(runs)
    with pytest.raises(UserError, match="not known"):
        second.get(upload.place.id)
    first.close()
    assert second.get(upload.place.id).offset == 0
    second.close()


def test_what_nobody_comes_back_to_is_removed(runs, monkeypatch):
    uploads = Uploads(runs)
    old, new = (uploads.create([FileHead("a", 10)]) for _ in range(2))
    old.append(old.claim(0, None), b"1")
    litter = runs / ".import-killed"
    litter.mkdir()
    for folder in (old.place.folder, litter):
        for path in (folder, *folder.rglob("*")):
            os.utime(path, (time.time() - 7200,) * 2)
    uploads.sweep()
    assert len(left(runs)) == 3  # by default they are kept for a day
    monkeypatch.setenv("RANKSCOPE_UPLOAD_KEEP_HOURS", "1")
    uploads.sweep()
    assert left(runs) == [new.place.folder.name]
    with pytest.raises(UserError, match="not known"):
        uploads.get(old.place.id)
    uploads.close()


def test_there_is_an_end_to_uploads_under_way(runs, monkeypatch):
    monkeypatch.setattr(app.uploads, "MOST_UNDER_WAY", 2)
    uploads = Uploads(runs)
    for _ in range(2):
        uploads.create([FileHead("a", 10)])
    with pytest.raises(UserError, match="2 uploads are under way"):
        uploads.create([FileHead("a", 10)])
    uploads.close()


def test_a_server_that_stops_leaves_both_to_the_next_one(runs, monkeypatch):
    content = trace(0)
    monkeypatch.setattr(app.uploads, "import_paths", endless)
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
    assert after.get(receiving.place.id).offset == 3
    again = after.get(importing.place.id)
    until = time.monotonic() + 20
    while again.state != "done":
        assert time.monotonic() < until, again.told()
        time.sleep(0.02)
    after.close()
