"""The server's job token opens runs of its own and nothing else: attacks on the ranks' socket."""

from __future__ import annotations

import io
import json
import shutil
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection

from app.findings import diagnose_run
from app.routes import agents
from app.settings import Settings
from sample_traces import RECORDED
from tests.app.server.ranks import JOB_TOKEN, hello, line, refusal, state, wait_until
from tests.app.server.served import WAIT_S, Served, served
from tests.runs_builder import table
from trace_hooks.parcels import Parcel
from trace_hooks.schema import SCHEMA_VERSION, SegmentName

SLOW = "slow_rank"
ANOTHER_SECRET = "what-somebody-else-has-who-knows-the-job-token"


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """A folder of runs with one recorded run, in which rank 5 is slow."""
    shutil.copytree(RECORDED / SLOW, tmp_path / "runs" / SLOW)
    return tmp_path / "runs"


@pytest.fixture
def server(runs: Path) -> Iterator[Served]:
    with served(runs, Settings(port=0, job_token=JOB_TOKEN)) as running_one:
        yield running_one


def rank_file(attempt: int, rank: int = 0, **more: Any) -> Parcel:
    told = {
        "schema": SCHEMA_VERSION, "attempt": attempt, "rank": rank, "world_size": 8, "host": "h",
        "pid": 1, "local_rank": rank, "device": "cpu", "device_uuid": "", "started_ns": 5,
        "layout": None, "coords": None, "end": None, "hooks": {},
    }  # fmt: skip
    return Parcel(f"ranks/{attempt:04d}-{rank:05d}.json", json.dumps({**told, **more}).encode())


def run_file(run: str, **more: Any) -> Parcel:
    told = {
        "schema": SCHEMA_VERSION, "run": run, "created_ns": 1, "clock": "absolute",
        "source": "hooks", "framework": "test", "versions": {},
    }  # fmt: skip
    return Parcel("run.json", json.dumps({**told, **more}).encode())


def steps_file(attempt: int = 0, rank: int = 0, number: int = 0, **more: Any) -> Parcel:
    rows = [{"attempt": attempt, "rank": rank, "step": step, "start_ns": step, "dur_ns": 1, **more}
            for step in range(3)]  # fmt: skip
    buffer = io.BytesIO()
    pq.write_table(table("steps", rows), buffer)
    return segment(buffer.getvalue(), attempt, rank, number)


def segment(
    data: bytes, attempt: int = 0, rank: int = 0, number: int = 0, name: str = "steps"
) -> Parcel:
    return Parcel(f"segments/{SegmentName(name, attempt, rank, number)}", data)


def answers(opened: ClientConnection, *parcels: Parcel) -> list[dict[str, Any]]:
    """What the server says of files, in their order."""
    found = []
    for parcel in parcels:
        opened.send(parcel.encode())
        while (told := json.loads(opened.recv(WAIT_S)))["type"] not in ("stored", "not_stored"):
            pass
        found.append(told)
    return found


def culprits(server: Served, run: str = SLOW) -> list[int]:
    """Ranks that the findings of a run name, by all that it holds now."""
    assert server.hub.catch_up(run, WAIT_S)
    found = diagnose_run(server.hub.run(run, WAIT_S))
    return [rank for finding in found.findings for rank in [p.rank for p in finding.culprits]]


def files_below(folder: Path) -> dict[str, bytes]:
    """All that a run holds, but its index."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and path.relative_to(folder).parts[0] != "index"
    }


def tried(server: Served, told: str, *parcels: Parcel) -> tuple[int | None, str]:
    """Close code and reason that a hello gets, or what is sent after it, if anything is refused."""
    with line(server) as opened:
        opened.send(told)
        with suppress(ConnectionClosed):
            if json.loads(opened.recv(WAIT_S))["type"] == "welcome":
                for parcel in parcels:
                    answers(opened, parcel)
                return None, ""
        return opened.close_code, str(opened.close_reason)


def test_a_hello_neither_hides_nor_changes_a_recorded_run(server: Served, runs: Path) -> None:
    before = files_below(runs / SLOW)
    assert 5 in culprits(server)
    code, reason = tried(server, hello(SLOW, attempt=7), rank_file(7), steps_file(7))
    assert 5 in culprits(server)
    assert files_below(runs / SLOW) == before
    assert state(server, SLOW)["watches"] == []
    assert (code, "was recorded without this job" in reason) == (agents.NOT_YOURS, True)


def test_who_has_the_job_token_alone_writes_into_no_run_of_another_job(
    server: Served, runs: Path
) -> None:
    with line(server) as own:
        own.send(hello("night"))
        own.recv(WAIT_S)
        answers(own, run_file("night"), rank_file(0), steps_file())
        before = files_below(runs / "night")
        for other in ({"start": "another-start"}, {}):
            stranger = hello("night", attempt=1, rank=1, secret=ANOTHER_SECRET, **other)
            code, reason = tried(server, stranger, rank_file(1, 1), steps_file(1, 1))
            assert files_below(runs / "night") == before
            assert (code, "another job's" in reason) == (agents.NOT_YOURS, True)


def test_a_stranger_does_not_kick_a_rank_out(server: Served) -> None:
    with line(server) as own, line(server) as stranger:
        own.send(hello("night"))
        own.recv(WAIT_S)
        stranger.send(hello("night", secret=ANOTHER_SECRET))
        assert refusal(stranger)[0] == agents.NOT_YOURS
        own.send(json.dumps({"type": "heartbeat", "step": 7, "sent": 0, "thinned": 0}))
        wait_until(lambda: state(server, "night")["step"] == 7)
        assert state(server, "night")["connected"] == 1
