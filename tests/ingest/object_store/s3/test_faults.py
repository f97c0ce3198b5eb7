"""Storage that fails: a retry that ends well or one sentence, and never half a file."""

from __future__ import annotations

import threading
from http.client import HTTPConnection
from pathlib import Path

import pytest
from pyarrow.fs import S3FileSystem

from ingest.errors import UserError
from ingest.object_store import connection
from ingest.object_store.address import parse_address
from ingest.object_store.bucket_runs import BucketRuns
from ingest.object_store.connection import connected
from ingest.object_store.mirrored_run import MIRROR, Look, MirroredRun
from ingest.object_store.upload import upload_run
from tests.ingest.object_store.buckets import look
from tests.ingest.object_store.s3.conftest import BUCKET, SECRET
from tests.ingest.object_store.s3.faulty_proxy import (
    Answer,
    FaultyProxy,
    every,
    late_listing,
    slow,
    slow_down,
    truncated,
    unsigned_refused,
)
from tests.runs_builder import two_rank_run

pytestmark = pytest.mark.s3
ADDRESS = f"s3://{BUCKET}/runs"


def content(folder: Path) -> dict[str, bytes]:
    """Files of a run folder, but for those of the mirror and the index."""
    paths = [path for path in folder.rglob("*") if path.is_file()]
    relative = {str(path.relative_to(folder)): path.read_bytes() for path in paths}
    return {name: data for name, data in relative.items() if not name.startswith((MIRROR, "index"))}


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return two_rank_run(tmp_path / "r-abc").folder


def store(run: Path) -> None:
    upload_run(connected(parse_address(ADDRESS)), run, lambda *_: None)


def mirrored(tmp_path: Path) -> MirroredRun:
    return MirroredRun(connected(parse_address(ADDRESS)), "r-abc", tmp_path / "here")


def look_until_whole(run: MirroredRun, folder: Path) -> list[Look]:
    """Looks until run.json is there: objects that were not read whole are fetched again."""
    looks = []
    while not (folder / "run.json").exists():
        looks.append(look(run))
        assert len(looks) < 20
    return looks


@pytest.mark.parametrize("fault", [slow_down, slow, truncated], ids=lambda fault: fault.__name__)
def test_faults_of_some_requests_are_retried(
    tmp_path: Path, proxy: FaultyProxy, run: Path, fault: object
) -> None:
    proxy.faults.append(every(4, fault))
    store(run)
    look_until_whole(mirrored(tmp_path), tmp_path / "here")
    look(mirrored(tmp_path))
    assert content(tmp_path / "here") == content(run)


@pytest.mark.parametrize(
    ("fault", "sentence"),
    [(slow_down, "too many requests"), (truncated, "no answer; check the network")],
    ids=["slow_down", "truncated"],
)
def test_faults_of_all_requests_end_in_a_sentence_and_leave_nothing(
    tmp_path: Path,
    proxy: FaultyProxy,
    run: Path,
    fault: object,
    sentence: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    store(run)
    monkeypatch.setattr(connection, "_TRIES", 2)
    proxy.faults.append(fault)
    with pytest.raises(UserError, match=sentence) as raised:
        look(mirrored(tmp_path))
    assert SECRET not in str(raised.value)
    assert content(tmp_path / "here") == {}
    assert not [path for path in (tmp_path / "here").rglob("*") if path.suffix == ".part"]


def test_an_answer_that_never_comes_ends_in_a_sentence(
    tmp_path: Path, proxy: FaultyProxy, run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store(run)
    monkeypatch.setattr(connection, "_TRIES", 2)
    monkeypatch.setattr(connection, "_REQUEST_S", 1.0)
    never = threading.Event()

    def hang(_request: object, passed_on: object) -> Answer:
        never.wait()
        return passed_on()

    proxy.faults.append(hang)
    try:
        with pytest.raises(UserError, match="no answer; check the network"):
            look(mirrored(tmp_path))
    finally:
        never.set()


def test_an_object_that_is_listed_late_is_fetched_late(
    tmp_path: Path, proxy: FaultyProxy, run: Path
) -> None:
    store(run)
    proxy.faults.append(late_listing("steps-0000-00001"))
    here = mirrored(tmp_path)
    look(here)
    late = {name for name in content(run) if "steps-0000-00001" in name}
    assert late
    assert content(run).keys() - content(tmp_path / "here").keys() == late
    proxy.faults.clear()
    assert look(here).num_new == len(late)
    assert content(tmp_path / "here") == content(run)


def test_an_object_that_is_replaced_while_it_is_read_is_read_again(
    tmp_path: Path, proxy: FaultyProxy, run: Path, files: S3FileSystem
) -> None:
    store(run)
    name = "ranks/0000-00000.json"
    before = (run / name).read_bytes()
    after = before.replace(b'"h0"', b'"h1"')
    assert len(after) == len(before)
    assert after != before

    def replaced(request: object, passed_on: object) -> Answer | None:
        if request.method != "GET" or name not in request.path:
            return None
        proxy.faults.clear()
        answer = passed_on()
        with files.open_output_stream(f"{BUCKET}/runs/r-abc/{name}") as target:
            target.write(after)
        return answer

    proxy.faults.append(replaced)
    here = mirrored(tmp_path)
    look(here)
    assert not (tmp_path / "here" / name).exists()
    assert not (tmp_path / "here/run.json").exists()
    look(here)
    assert (tmp_path / "here" / name).read_bytes() == after
    assert (tmp_path / "here/run.json").exists()


def test_keys_that_no_run_has_reach_no_disk(
    tmp_path: Path, proxy: FaultyProxy, run: Path, moto_port: int
) -> None:
    store(run)
    for key in (
        "r-abc/../../evil",
        "r-abc//evil",
        "/evil",
        "r-abc/segments/../../evil",
        "..%2Fevil",
    ):
        target = HTTPConnection("127.0.0.1", moto_port)
        target.request("PUT", f"/{BUCKET}/runs/{key}", b"evil")
        assert target.getresponse().status == 200
        target.close()
    look(mirrored(tmp_path))
    assert content(tmp_path / "here") == content(run)
    bucket = BucketRuns(connected(parse_address(ADDRESS)))
    bucket.look()
    assert bucket.names() == ["r-abc"]
    assert not list(tmp_path.rglob("*evil*"))


def test_without_credentials_it_is_said_where_they_come_from(
    proxy: FaultyProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    proxy.faults.append(unsigned_refused)
    with pytest.raises(UserError, match="access is denied; check that credentials are set"):
        connected(parse_address(ADDRESS)).folders()


def test_a_bucket_that_is_missing_is_said(proxy: FaultyProxy) -> None:
    with pytest.raises(UserError, match="s3://nowhere/runs cannot be listed: there is no such"):
        connected(parse_address("s3://nowhere/runs")).folders()


@pytest.mark.parametrize("endpoint", ["127.0.0.1:9000", "http://a:secret@host", "http://h:port"])
def test_a_wrong_endpoint_is_said_without_repeating_it(
    endpoint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", endpoint)
    with pytest.raises(UserError, match="AWS_ENDPOINT_URL is no address of a server") as raised:
        connected(parse_address(ADDRESS))
    assert endpoint not in str(raised.value)


def test_large_files_are_stored_in_parts(tmp_path: Path, proxy: FaultyProxy) -> None:
    (tmp_path / "large").write_bytes(bytes(range(256)) * (20 << 12))
    bucket = connected(parse_address(ADDRESS))
    proxy.faults.append(every(3, slow_down))
    bucket.put(tmp_path / "large", "large")
    assert proxy.asked("PUT", "partNumber=2") >= 1
    bucket.fetch("large", 20 << 20, tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == (tmp_path / "large").read_bytes()
