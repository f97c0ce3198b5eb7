"""Wall clocks that jump by an hour, of the server and of a rank: nothing is lost."""

from __future__ import annotations

import json
import random
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tests.app.uploads.sending import STREAM, TUS, listed, trace
from tests.faults.faketime import Clock, needs_faketime
from tests.faults.serving import LONG_ROUNDS, Server, serving
from tests.faults.training import TRAIN
from tests.trace_hooks.processes import begin, rank_files, rows
from tests.waiting import wait_until

JUMPS = ("+1h", "-1h")
HOUR_NS = 3_600_000_000_000


def row_of(server: Server, run: str) -> dict[str, Any]:
    """The run as the list of runs has it; {} before it is there."""
    return next((row for row in server.json("/api/runs")["runs"] if row["name"] == run), {})


def last_step(server: Server) -> int:
    """The newest step that the run's index has, -1 before the first."""
    answer = server.json("/api/run/job/query?q=steps")
    at = [column["name"] for column in answer["columns"]].index("step")
    return max((int(row[at]) for row in answer["rows"]), default=-1)


@needs_faketime
@pytest.mark.faults
@pytest.mark.parametrize("number", range(LONG_ROUNDS))
def test_a_server_whose_clock_jumps_follows_its_run_and_its_uploads(
    tmp_path: Path, number: int
) -> None:
    job, clock = begin(tmp_path, TRAIN), Clock(tmp_path)
    content = trace(0)
    try:
        wait_until(lambda: list(tmp_path.glob("runs/job/segments/[!.]*")))
        with serving(tmp_path / "runs", tmp_path, **clock.environ) as server:
            wait_until(lambda: row_of(server, "job").get("state") == "running")
            body = json.dumps(listed(("a.json", content))).encode()
            status, answer = server.ask("/api/uploads", "POST", body, **TUS)
            assert status == 201
            upload = f"/api/uploads/{json.loads(answer)['id']}"
            assert _patched(server, upload, 0, content[:100]) == 204
            time.sleep(random.Random(number).uniform(0.0, 1.0))
            for jump in JUMPS[number % 2 :] + JUMPS[: number % 2]:
                clock.jump_to(jump)
                before = last_step(server)
                wait_until(lambda before=before: last_step(server) > before)
                wait_until(lambda: row_of(server, "job")["state"] == "running")
                assert server.json("/healthz")["status"] == "ok"
            assert _patched(server, upload, 100, content[100:]) == 204
            wait_until(lambda: server.json(upload)["state"] in ("done", "failed"))
            assert server.json(upload)["error"] is None
            (tmp_path / "stop").touch()
            out, err = job.communicate(timeout=90)
            assert (job.returncode, err) == (0, "")
            wait_until(lambda: row_of(server, "job")["state"] == "finished")
            assert last_step(server) == int(out) - 1
    finally:
        job.kill()
        job.communicate()


def _patched(server: Server, upload: str, offset: int, content: bytes) -> int:
    return server.ask(upload, "PATCH", content, **STREAM, Upload_Offset=str(offset))[0]


@needs_faketime
@pytest.mark.faults
@pytest.mark.parametrize("number", range(LONG_ROUNDS))
def test_a_rank_whose_clock_jumps_records_every_step_once_and_in_order(
    tmp_path: Path, number: int
) -> None:
    clock = Clock(tmp_path)
    job = begin(tmp_path, TRAIN, **clock.environ)
    try:
        with serving(tmp_path / "runs", tmp_path) as server:
            wait_until(lambda: list(tmp_path.glob("runs/job/segments/[!.]*")))
            wait_until(lambda: row_of(server, "job").get("state") == "running")
            for jump in JUMPS[number % 2 :] + JUMPS[: number % 2]:
                time.sleep(random.Random(number).uniform(0.2, 1.0))
                clock.jump_to(jump)
                before = last_step(server)
                wait_until(lambda before=before: last_step(server) > before)
            assert row_of(server, "job")["state"] == "running"
            (tmp_path / "stop").touch()
            out, err = job.communicate(timeout=90)
            wait_until(lambda: row_of(server, "job")["state"] == "finished")
    finally:
        job.kill()
        job.communicate()
    assert (job.returncode, err) == (0, "")
    steps = sorted(rows(tmp_path, "steps"), key=lambda row: int(row["step"]))
    assert [row["step"] for row in steps] == list(range(int(out)))
    assert all(0 < row["dur_ns"] < HOUR_NS / 2 for row in steps)
    gaps_ns = [later["start_ns"] - row["start_ns"] for row, later in pairwise(steps)]
    assert all(0 < gap_ns < HOUR_NS / 2 for gap_ns in gaps_ns)
    assert rank_files(tmp_path)[0]["end"]["status"] == "finished"
