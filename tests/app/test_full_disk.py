"""A disk that is full and then has room: the problem is reported, and disappears by itself.

On a small disk of its own (a tmpfs); where none may be mounted these tests are skipped.
"""

from __future__ import annotations

import errno
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from app.analysis.live_status import live_status
from app.analysis.run_board import RunBoard
from app.live.claims import Claims
from app.live.connected_rank import Hello
from app.live.shipped_files import ShippedFiles
from app.runs.hub import Hub
from app.server import make_app
from ingest.errors import UserError
from ingest.imports.importer import import_paths
from ingest.index.compaction import Compaction
from sample_traces import RECORDED
from tests.app.server.asgi import Client
from tests.app.uploads.sending import trace
from tests.faults.disks import Disk, mounted
from tests.hostile.test_job_tokens import rank_file
from tests.runs_builder import RunBuilder, two_rank_run
from tests.waiting import wait_until

WAIT_S = 60.0


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    with mounted(tmp_path / "disk", 24) as small:
        yield small


@pytest.fixture
def hub(disk: Disk) -> Iterator[Hub]:
    opened = Hub(disk.folder)
    yield opened
    opened.close()


def grow(run: RunBuilder, is_finished: bool) -> None:
    """40 steps more."""
    for step in range(3, 43):
        run.step(0, step, step * 100, step * 100 + 100)
        run.step(1, step, step * 100, step * 100 + 100)
    if is_finished:
        run.rank_files(end={"ts_ns": 1, "status": "completed"})
    run.publish()


@pytest.mark.long
@pytest.mark.parametrize("is_finished", [False, True])
def test_a_run_that_could_not_be_indexed_is(disk: Disk, hub: Hub, is_finished: bool) -> None:
    run = two_rank_run(disk.folder / "job")
    client = Client(make_app(hub))
    hub.run("job", wait_s=WAIT_S)
    assert live_status(hub, "job").last_step == 2
    grow(run, is_finished)
    disk.fill()
    wait_until(hub.problems)
    assert "No space left on device; check the disk's free space" in hub.problems()[0]
    assert client.get("/healthz").json()["status"] == "degraded"
    disk.make_room()
    wait_until(lambda: not hub.problems())
    wait_until(lambda: live_status(hub, "job").last_step == 42)
    assert live_status(hub, "job").problem is None
    assert client.get("/healthz").json()["status"] == "ok"


def test_a_first_index_that_had_no_room_is_made(disk: Disk, hub: Hub) -> None:
    two_rank_run(disk.folder / "job")
    disk.fill()
    with pytest.raises(UserError, match="No space left on device"):
        hub.run("job", wait_s=WAIT_S)
    disk.make_room()
    wait_until(lambda: not hub.problems())
    assert live_status(hub, "job").last_step == 2


@pytest.mark.long
def test_the_list_of_runs_goes_on(disk: Disk, hub: Hub) -> None:
    board = RunBoard(hub)
    run = two_rank_run(disk.folder / "job")
    wait_until(lambda: [row.last_step for row in board.rows()] == [2])
    grow(run, is_finished=True)
    disk.fill()
    deadline_s = time.monotonic() + 3  # rounds that find no room
    while time.monotonic() < deadline_s:
        board.rows()
        time.sleep(0.2)
    disk.make_room()
    wait_until(lambda: [(row.problem, row.last_step) for row in board.rows()] == [(None, 42)])
    board.close()


def test_an_import_works_again(disk: Disk, tmp_path: Path) -> None:
    (tmp_path / "a.json").write_bytes(trace(0))
    disk.fill()
    with pytest.raises(UserError, match="make room there"):
        import_paths([tmp_path / "a.json"], disk.folder)
    disk.make_room()
    assert (import_paths([tmp_path / "a.json"], disk.folder) / "run.json").is_file()
    assert not list(disk.folder.glob(".import-*"))


def test_files_of_ranks_are_stored_again(disk: Disk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.live.shipped_files.LEAST_FREE", 0)
    files = ShippedFiles(disk.folder / "job", 0, lambda _path, _segment: "")
    parcel = rank_file(0)
    disk.fill()
    with pytest.raises(UserError, match="make room"):
        files.store(parcel)
    disk.make_room()
    files.store(parcel)
    assert (disk.folder / "job" / parcel.name).is_file()


def test_a_failure_after_all_was_indexed_is_reported_no_longer_than_it_lasts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is left to be done for the index: without another pass nobody would take it back."""
    left = [2]
    delete = Compaction.delete_retired

    def fails_at_first(own: Compaction) -> list[str]:
        left[0] -= 1
        if left[0] >= 0:
            raise OSError(errno.ENOSPC, "No space left on device")
        return delete(own)

    monkeypatch.setattr(Compaction, "delete_retired", fails_at_first)
    shutil.copytree(
        RECORDED / "healthy", tmp_path / "healthy", ignore=shutil.ignore_patterns("index")
    )
    hub = Hub(tmp_path)
    try:
        hub.run("healthy", wait_s=WAIT_S)
        wait_until(lambda: hub.passes.failed >= 1)
        wait_until(lambda: not hub.problems())
    finally:
        hub.close()


def test_a_run_that_was_refused_for_want_of_room_is_opened_when_there_is_room(
    disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.live.shipped_files.LEAST_FREE", 0)
    hello = Hello("job", 0, 0, 1, start="start-of-this", secret="x" * 32)
    disk.fill()
    with pytest.raises(UserError, match="No space left"):
        Claims(disk.folder).check(hello)
    disk.make_room()
    Claims(disk.folder).check(hello)
    assert (disk.folder / "job" / "attempts" / "0000").read_text("utf-8").strip() == hello.start


def test_no_run_is_opened_where_the_disk_is_almost_full(disk: Disk) -> None:
    with pytest.raises(UserError, match="is full; make room there"):
        Claims(disk.folder).check(Hello("job", 0, 0, 1, start="start-of-this", secret="x" * 32))
    assert list(disk.folder.iterdir()) == []
