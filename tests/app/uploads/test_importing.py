"""What becomes of files that have come: runs, refusals, and what is left behind."""

from __future__ import annotations

import errno
import gzip
import json
import time

import app.uploads.files
import app.uploads.importing
import app.uploads.uploads
import ingest.imports.importer
from app.analysis.imports import import_paths
from app.analysis.run_board import board_of
from app.uploads.files import FileHead
from app.uploads.uploads import Uploads
from ingest.errors import DiskFull
from tests.app.uploads.sending import (
    TUS,
    UPLOADS_FOLDER,
    begun,
    ended,
    endless,
    imported,
    left,
    patch,
    trace,
    when,
)


def test_files_of_one_job_become_one_run(client, runs):
    answer = imported(client, ("a.json", trace(0)), ("b.json.gz", gzip.compress(trace(1))))
    assert answer["error"] is None
    assert answer["state"] == "done"
    assert not answer["is_known"]
    assert answer["offset"] == answer["total_bytes"]
    assert answer["run"] in {run["name"] for run in client.get("/api/runs").json()["runs"]}
    info = json.loads((runs / answer["run"] / "run.json").read_text())
    assert info["provenance"][0].startswith("a.json (")
    assert left(runs) == []


def test_a_folder_is_a_run_of_its_name_and_keeps_its_paths(client, runs):
    answer = imported(client, ("job 7/host/a.json", trace(0)), ("job 7/b.json", trace(1)))
    assert answer["title"] == "job 7"
    assert answer["run"].startswith("job-7-")
    info = json.loads((runs / answer["run"] / "run.json").read_text())
    assert {line.split(" (")[0] for line in info["provenance"][:2]} == {
        "job 7/host/a.json",
        "job 7/b.json",
    }


def test_the_same_files_again_are_the_same_run(client):
    first = imported(client, ("a.json", trace(0)))
    again = imported(client, ("other name.json", trace(0)))
    assert again["run"] == first["run"]
    assert again["is_known"]


def test_what_cannot_be_read_is_one_sentence_and_leaves_nothing(client, runs):
    answer = imported(client, ("notes.txt", b"no trace at all"))
    assert answer["state"] == "failed"
    assert "notes.txt" in answer["error"]
    assert UPLOADS_FOLDER not in answer["error"]
    assert "\n" not in answer["error"]
    assert left(runs) == []
    assert client.get("/api/runs").json()["runs"] == []


def test_a_damaged_file_of_many_is_a_problem_of_the_run(client):
    answer = imported(client, ("a.json", trace(0)), ("b.json", b"{\x00"))
    assert answer["state"] == "done"
    assert any("b.json" in problem for problem in answer["problems"])


def test_two_files_of_one_name_are_both_read(client):
    answer = imported(client, ("t.json", trace(0)), ("t.json", trace(1)))
    rows = client.get("/api/runs").json()["runs"]
    until = time.monotonic() + 60
    while rows[0]["state"] == "indexing" and time.monotonic() < until:
        time.sleep(0.05)
        rows = client.get("/api/runs").json()["runs"]
    assert answer["state"] == "done"
    assert rows[0]["num_ranks"] == 2


def test_an_import_can_be_cancelled(client, runs, monkeypatch):
    monkeypatch.setattr(app.uploads.importing, "import_paths", endless)
    url = begun(client, ("a.json", trace(0)))
    patch(client, url, 0, trace(0))
    until = time.monotonic() + 60
    while client.get(url).json()["state"] != "importing":
        assert time.monotonic() < until
    assert client.request("DELETE", url, headers=TUS).status_code == 204
    assert "cancelled" in ended(client, url)["error"]
    assert left(runs) == []


def test_a_full_disk_keeps_the_files_and_is_waited_for(client, hub, runs, monkeypatch):
    tried = []

    def full_once(*given):
        tried.append(given)
        if len(tried) == 1:
            raise DiskFull("runs cannot be written (No space left on device); make room there")
        return import_paths(*given)

    free = [100 << 20]
    monkeypatch.setattr(app.uploads.importing, "import_paths", full_once)
    monkeypatch.setattr(app.uploads.importing, "free_bytes", lambda _: free[0])
    monkeypatch.setattr(app.uploads.importing, "_LOOK_FOR_ROOM_S", 0.01)
    url = begun(client, ("a.json", trace(0)))
    patch(client, url, 0, trace(0))
    answer = when(client, url, "waiting")
    assert answer["error"].startswith("The disk of the server is full; all files are kept")
    assert answer["offset"] == answer["total_bytes"]
    [place] = left(runs)
    assert (runs / UPLOADS_FOLDER / place / "files" / "a.json").read_bytes() == trace(0)
    free[0] += 5 << 20  # too little more
    time.sleep(0.1)
    assert client.get(url).json()["state"] == "waiting"
    free[0] += 50 << 20
    answer = ended(client, url)
    assert (answer["state"], answer["error"], len(tried)) == ("done", None, 2)
    assert left(runs) == []


def test_room_that_came_before_it_was_measured_is_found(client, runs, monkeypatch):
    """Nor is that of a quota seen: it is tried again in any case."""
    tried = []

    def full_twice(*given):
        tried.append(given)
        if len(tried) < 3:
            raise DiskFull("runs cannot be written (No space left on device); make room there")
        return import_paths(*given)

    monkeypatch.setattr(app.uploads.importing, "import_paths", full_twice)
    monkeypatch.setattr(app.uploads.importing, "free_bytes", lambda _: 500 << 20)
    monkeypatch.setattr(app.uploads.importing, "_LOOK_FOR_ROOM_S", 0.01)
    monkeypatch.setattr(app.uploads.importing, "_TRY_AFTER_S", 0.1, raising=False)
    url = begun(client, ("a.json", trace(0)))
    patch(client, url, 0, trace(0))
    answer = ended(client, url)
    assert (answer["state"], answer["error"], len(tried)) == ("done", None, 3)
    assert left(runs) == []


def test_who_waits_for_room_may_give_up(client, runs, monkeypatch):
    monkeypatch.setattr(app.uploads.importing, "import_paths", never_room)
    url = begun(client, ("a.json", trace(0)))
    patch(client, url, 0, trace(0))
    when(client, url, "waiting")
    assert client.request("DELETE", url, headers=TUS).status_code == 204
    assert "cancelled" in ended(client, url)["error"]
    assert left(runs) == []


def never_room(*_):
    raise OSError(errno.ENOSPC, "No space left on device")


def test_a_server_that_waits_for_room_leaves_the_files_to_the_next_one(runs, monkeypatch):
    monkeypatch.setattr(app.uploads.importing, "import_paths", never_room)
    first = Uploads(runs)
    upload = first.create([FileHead("a.json", len(trace(0)))])
    upload.append(upload.claim(0, None), trace(0))
    first.import_if_whole(upload)
    until = time.monotonic() + 60
    while upload.state != "waiting":
        assert time.monotonic() < until, upload.as_json()
        time.sleep(0.01)
    first.close()
    monkeypatch.undo()
    second = Uploads(runs)
    again = second.get(upload.storage.id)
    while again.state != "done":
        assert time.monotonic() < until + 10, again.as_json()
        time.sleep(0.01)
    second.close()


def test_the_page_learns_the_address_while_files_are_read(client, hub, monkeypatch):
    """Seen from inside of the import, at the moment of the announcement."""
    seen = []

    def watched(*given):
        *others, on_shown = given

        def shown(run):
            on_shown(run)
            seen.extend(row for row in board_of(hub).rows() if row.name == run)

        return import_paths(*others, shown)

    monkeypatch.setattr(ingest.imports.importer, "_SHOWN_FROM_BYTES", 1)
    monkeypatch.setattr(app.uploads.importing, "import_paths", watched)
    answer = imported(client, ("job/a.json", trace(0)), ("job/b.json", trace(1)))
    [row] = seen
    assert answer["shown"] == answer["run"] == row.name
    assert row.state == "importing"
    assert "of 2 files" in row.importing
    assert [row.name for row in board_of(hub).rows()] == [answer["run"]]
