"""Disks that are full or read-only, of the server and of a rank: sentences, then on again."""

from __future__ import annotations

import json
import subprocess
import time
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from tests.app.uploads.sending import TUS, listed, trace
from tests.faults.disks import Disk, mounted
from tests.faults.serving import ROUNDS, Server, serving
from tests.faults.training import TRAIN
from tests.runs_builder import RunBuilder, two_rank_run
from tests.trace_hooks.processes import begin, rank_files, rows
from tests.waiting import wait_until
from trace_hooks.job.handover import PUBLISH_NOW
from trace_hooks.schema import SegmentName

ROOM_MB = 320
"""Uploads leave 256 MB of a disk to everything else."""


def begun_upload(server: Server, content: bytes) -> tuple[int, dict[str, Any]]:
    """Status and answer of the request that begins an upload of one file."""
    body = json.dumps(listed(("a.json", content))).encode()
    status, answer = server.ask("/api/uploads", "POST", body, **TUS)
    return status, json.loads(answer)


def num_steps(server: Server) -> int:
    return len(server.json("/api/run/job/query?q=steps")["rows"])


def add_step(run: RunBuilder, number: int) -> None:
    for rank in range(2):
        run.step(rank, number, number * 100.0, number * 100.0 + 100)
        run.span(rank, number, "forward", number * 100.0, number * 100.0 + 90)
    run.publish()


@pytest.mark.faults
def test_a_server_on_a_full_disk_says_so_and_goes_on_with_new_room(tmp_path: Path) -> None:
    content = trace(0)
    with mounted(tmp_path / "disk", ROOM_MB) as disk:
        run = two_rank_run(disk.folder / "job")
        with serving(disk.folder, tmp_path) as server:
            for number in range(ROUNDS):
                wait_until(lambda number=number: num_steps(server) == 3 + number)
                add_step(run, 3 + number)
                disk.fill()
                status, answer = begun_upload(server, content)
                assert (status, answer["error"].startswith("the disk of the server")) == (507, True)
                for path in ("/", "/run/job/overview", "/run/job/timeline", "/api/runs"):
                    assert server.ask(path)[0] == 200, path
                assert b"error" in server.ask("/api/run/job/query?q=nonsense")[1]
                disk.make_room()
                wait_until(lambda number=number: num_steps(server) == 4 + number)
                wait_until(lambda: server.json("/healthz")["status"] == "ok")
                assert begun_upload(server, content)[0] == 201


@pytest.mark.faults
def test_a_read_only_folder_of_runs_is_served_and_takes_no_upload(tmp_path: Path) -> None:
    with mounted(tmp_path / "disk", ROOM_MB) as disk:
        two_rank_run(disk.folder / "job")
        disk.make_read_only()
        with serving(disk.folder, tmp_path, XDG_CACHE_HOME=str(tmp_path / "cache")) as server:
            wait_until(lambda: num_steps(server) == 3)
            for _ in range(ROUNDS):
                status, answer = begun_upload(server, trace(0))
                assert status == 507
                assert "cannot be written" in answer["error"]
                assert server.ask("/run/job/overview")[0] == 200
            disk.make_writable()
            assert begun_upload(server, trace(0))[0] == 201


@pytest.mark.faults
@pytest.mark.parametrize("is_full", [True, False], ids=["full", "read-only"])
def test_training_goes_on_without_a_disk_and_writes_again_with_new_room(
    tmp_path: Path, is_full: bool
) -> None:
    with mounted(tmp_path / "runs", 16) as disk:
        job = begin(tmp_path, TRAIN, TRACE_HOOKS_COLLECTOR="0")
        try:
            for _ in range(ROUNDS):
                before = len(step_files(tmp_path))
                wait_until(lambda before=before: len(step_files(tmp_path)) > before + 1, 60)
                disk.fill() if is_full else make_read_only(disk)
                time.sleep(1.5)  # two flushes that fail
                assert job.poll() is None
                disk.make_room() if is_full else disk.make_writable()
            before = len(step_files(tmp_path))
            wait_until(lambda: len(step_files(tmp_path)) > before + 1, 60)
            (tmp_path / "stop").touch()
            out, err = job.communicate(timeout=90)
        finally:
            job.kill()
            job.communicate()
        assert job.returncode == 0
        assert "Traceback" not in err
        assert "cannot write to" in err
        found = [int(row["step"]) for row in rows(tmp_path, "steps")]
        assert found == sorted(set(found))
        assert found[0] == 0
        assert found[-1] == int(out) - 1
        dropped = max(row["dropped"] for row in rows(tmp_path, "heartbeats"))
        assert dropped >= int(out) - len(found) > 0  # what is missing is counted
        assert rank_files(tmp_path)[0]["end"]["status"] == "finished"


@pytest.mark.faults
@pytest.mark.parametrize("is_full", [True, False], ids=["full", "read-only"])
def test_a_collector_without_a_disk_keeps_every_row_until_there_is_room(
    tmp_path: Path, is_full: bool
) -> None:
    with mounted(tmp_path / "runs", 16) as disk:
        job = begin(tmp_path, TRAIN)
        try:
            wait_until(lambda: rows(tmp_path, "steps"))
            disk.fill() if is_full else make_read_only(disk)
            (spool,) = tmp_path.glob("rings/*/*/spool")
            wait_until(lambda: any(spool.glob("*.batch")))
            (spool / PUBLISH_NOW).touch()
            wait_until(lambda: not (spool / PUBLISH_NOW).exists())  # it tries
            disk.make_room() if is_full else disk.make_writable()
            (tmp_path / "stop").touch()
            out, err = job.communicate(timeout=90)
        finally:
            job.kill()
            job.communicate()
        assert (job.returncode, err) == (0, "")
        assert [row["step"] for row in rows(tmp_path, "steps")] == list(range(int(out)))
        assert rank_files(tmp_path)[0]["end"]["status"] == "finished"


def make_read_only(disk: Disk) -> None:
    """A file that is being written forbids it for a moment."""

    def is_done() -> bool:
        try:
            disk.make_read_only()
        except subprocess.CalledProcessError:
            return False
        return True

    wait_until(is_done)


def step_files(folder: Path) -> list[Path]:
    """Segments of steps; each is whole."""
    found = []
    for path in sorted((folder / "runs").glob("*/segments/*.parquet")):
        name = SegmentName.parse(path.name)
        if name is not None and name.table == "steps":
            assert pq.read_metadata(path).num_rows
            found.append(path)
    return found
