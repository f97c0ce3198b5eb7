"""The server's job token opens runs of its own and nothing else: attacks on the ranks' socket."""

from __future__ import annotations

import io
import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection

from app.analysis.diagnosis import diagnose_run
from app.routes.live import closing
from app.settings import Settings
from ingest.errors import UserError
from ingest.imports.preview import FOUND, UNFINISHED, Showing
from ingest.index.snapshots import OwnerLock
from sample_traces import RECORDED
from tests.app.live.run_files import run_file
from tests.app.server.ranks import (
    JOB_TOKEN,
    RUN_SECRET,
    hello,
    line,
    of_these_ranks,
    refusal,
    state,
)
from tests.app.server.served import WAIT_S, Served, served
from tests.runs_builder import table
from tests.waiting import wait_until
from trace_hooks.protocol.file_transfer import Parcel
from trace_hooks.protocol.job_claims import DIGEST_FILE, SECRET_FILE, run_secret
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
    content = {
        "schema": SCHEMA_VERSION,
        "attempt": attempt,
        "rank": rank,
        "world_size": 8,
        "host": "h",
        "pid": 1,
        "local_rank": rank,
        "device": "cpu",
        "device_uuid": "",
        "started_ns": 5,
        "layout": None,
        "coords": None,
        "end": None,
        "hooks": {},
    }
    return Parcel(f"ranks/{attempt:04d}-{rank:05d}.json", json.dumps({**content, **more}).encode())


def steps_file(attempt: int = 0, rank: int = 0, number: int = 0, **more: Any) -> Parcel:
    rows = [
        {"attempt": attempt, "rank": rank, "step": step, "start_ns": step, "dur_ns": 1, **more}
        for step in range(3)
    ]
    buffer = io.BytesIO()
    pq.write_table(table("steps", rows), buffer)
    return segment(buffer.getvalue(), attempt, rank, number)


def segment(
    data: bytes, attempt: int = 0, rank: int = 0, number: int = 0, name: str = "steps"
) -> Parcel:
    return Parcel(f"segments/{SegmentName(name, attempt, rank, number)}", data)


@contextmanager
def joined(server: Served, message: str) -> Iterator[ClientConnection]:
    """The socket of a rank that sent `message` and was answered."""
    with line(server) as opened:
        opened.send(message)
        opened.recv(WAIT_S)
        yield opened


def answers(opened: ClientConnection, *parcels: Parcel) -> list[dict[str, Any]]:
    """The server's answers to files, in their order."""
    found = []
    for parcel in parcels:
        opened.send(parcel.encode())
        while (message := json.loads(opened.recv(WAIT_S)))["type"] not in ("stored", "not_stored"):
            pass
        found.append(message)
    return found


def culprits(server: Served, run: str = SLOW) -> list[int]:
    """Ranks that the findings of a run name, by all that it holds now."""
    assert server.hub.catch_up(run, WAIT_S)
    diagnosis = diagnose_run(server.hub.run(run, WAIT_S))
    return [rank for finding in diagnosis.findings for rank in [p.rank for p in finding.culprits]]


def files_below(folder: Path) -> dict[str, bytes]:
    """All that a run holds, but its index."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and path.relative_to(folder).parts[0] != "index"
    }


def tried(server: Served, greeting: str, *parcels: Parcel) -> tuple[int | None, str]:
    """Close code and reason that a hello gets, or what is sent after it, if anything is refused."""
    with line(server) as opened:
        opened.send(greeting)
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
    assert (code, "was recorded without this job" in reason) == (closing.NOT_YOURS, True)


def test_who_has_the_job_token_alone_writes_into_no_run_of_another_job(
    server: Served, runs: Path
) -> None:
    with joined(server, hello("night")) as own:
        answers(own, run_file("night"), rank_file(0), steps_file())
        before = files_below(runs / "night")
        for other in ({"start": "another-start"}, {}):
            stranger = hello("night", attempt=1, rank=1, secret=ANOTHER_SECRET, **other)
            code, reason = tried(server, stranger, rank_file(1, 1), steps_file(1, 1))
            assert files_below(runs / "night") == before
            assert (code, "another job's" in reason) == (closing.NOT_YOURS, True)


def test_a_stranger_does_not_kick_a_rank_out(server: Served) -> None:
    with line(server) as own, line(server) as stranger:
        own.send(hello("night"))
        own.recv(WAIT_S)
        stranger.send(hello("night", secret=ANOTHER_SECRET))
        assert refusal(stranger)[0] == closing.NOT_YOURS
        own.send(json.dumps({"type": "heartbeat", "step": 7, "sent": 0, "thinned": 0}))
        wait_until(lambda: state(server, "night")["step"] == 7)
        assert state(server, "night")["connected"] == 1


def test_a_rank_that_comes_again_takes_its_own_place_and_no_other_start_does(
    server: Served,
) -> None:
    with line(server) as old, line(server) as new:
        old.send(hello("night"))
        old.recv(WAIT_S)
        code, reason = tried(server, hello("night", start="another-start"))
        assert (code, "another start owns attempt 0" in reason) == (closing.NOT_YOURS, True)
        code, _ = tried(server, hello("night", rank=5, start="another-start"))
        assert code == closing.NOT_YOURS
        new.send(hello("night"))
        assert refusal(old)[0] == closing.REPLACED
        assert json.loads(new.recv(WAIT_S))["type"] == "welcome"
        assert tried(server, hello("night", attempt=1, start="another-start")) == (None, "")


@pytest.mark.parametrize(
    "parcel",
    [steps_file(rank=2), steps_file(attempt=1), rank_file(0, 2), rank_file(4), run_file("night")],
    ids=[
        "segment of another rank",
        "segment of a later attempt",
        "file of another rank",
        "file of a later attempt",
        "run.json of a rank that is not 0",
    ],
)
def test_a_connection_writes_what_it_has_claimed_and_nothing_else(
    server: Served, runs: Path, parcel: Parcel
) -> None:
    code, reason = tried(server, hello("night", rank=1), parcel)
    assert (code, parcel.name[:20] in reason) == (closing.NOT_YOURS, True)
    assert not (runs / "night" / parcel.name).exists()


def test_a_rank_that_has_ended_does_not_come_back(server: Served, runs: Path) -> None:
    with joined(server, hello("night")) as opened:
        answers(opened, run_file("night"), rank_file(0), steps_file())
        opened.send(json.dumps({"type": "bye", "complete": True}))
        refusal(opened)
    wait_until(lambda: state(server, "night")["ended"] == 1)
    with served(runs, Settings(port=0, job_token=JOB_TOKEN)) as later:
        for one in (server, later):
            code, reason = tried(one, hello("night"), steps_file(number=1))
            assert (code, "has ended attempt 0" in reason) == (closing.NOT_YOURS, True)
        # what a later start sends of it is set aside
        with joined(later, hello("night", attempt=1, start="next-start")) as opened:
            late, own = answers(opened, steps_file(number=1), steps_file(1))
    assert late["type"] == own["type"] == "stored"  # the rank goes on with its next file
    assert "arrived after rank 0 had ended attempt 0" in late["text"]
    kept = [path.name for path in (runs / "night" / "segments").iterdir()]
    assert kept.count(str(SegmentName("steps", 0, 0, 1))) == 0


def test_a_rank_whose_file_has_its_end_does_not_come_back(server: Served, runs: Path) -> None:
    """Where ranks write into the folder that is served."""
    of_these_ranks(runs / SLOW)
    code, reason = tried(server, hello(SLOW, rank=3))
    assert (code, "rank 3 has ended attempt 0" in reason) == (closing.NOT_YOURS, True)
    assert tried(server, hello(SLOW, rank=3, attempt=1)) == (None, "")


def test_a_run_keeps_its_secret_when_job_and_server_start_again(runs: Path) -> None:
    settings = Settings(port=0, job_token=JOB_TOKEN)
    for attempt in range(2):
        with served(runs, settings) as server:
            own = hello("night", attempt=attempt, start=f"start-number-{attempt}")
            assert tried(server, own) == (None, "")
            stranger = hello("night", attempt=9, secret=ANOTHER_SECRET, start="start-number-9")
            assert tried(server, stranger)[0] == closing.NOT_YOURS
            again = hello("night", rank=1, attempt=0, start="start-number-7")
            assert tried(server, again)[0] == closing.NOT_YOURS


def test_what_is_here_by_another_name_is_not_opened(server: Served, runs: Path) -> None:
    (runs / "linked").symlink_to(runs / SLOW)
    (runs / "empty").mkdir()
    (runs / "file").touch()
    for name in ("linked", "empty", "file"):
        assert tried(server, hello(name), rank_file(0))[0] == closing.NOT_YOURS
    assert not list((runs / "empty").iterdir())


def test_the_run_of_an_import_that_goes_on_is_not_opened(server: Served, runs: Path) -> None:
    unfinished = runs / f"{UNFINISHED}x"
    (unfinished / FOUND).mkdir(parents=True)
    Showing(unfinished, "coming").begin("kineto", 0)
    with OwnerLock(unfinished / FOUND) as lock:
        assert lock.acquire()
        assert tried(server, hello("coming"))[0] == closing.NOT_YOURS
    assert not (runs / "coming").exists()


def test_a_server_of_one_run_takes_ranks_of_that_run_only(runs: Path) -> None:
    of_these_ranks(runs / SLOW)
    with served(runs / SLOW, Settings(port=0, job_token=JOB_TOKEN)) as server:
        assert tried(server, hello("night"))[0] == closing.NOT_YOURS
        assert tried(server, hello(SLOW, attempt=1)) == (None, "")
    assert not (runs / SLOW / "night").exists()


def test_jobs_open_runs_up_to_a_limit(
    server: Served, runs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RANKSCOPE_MOST_JOB_RUNS", "3")
    for number in range(3):
        assert tried(server, hello(f"run-{number}")) == (None, "")
    code, reason = tried(server, hello("run-3"))
    assert (code, "jobs have opened 3 runs here" in reason) == (closing.CROWDED, True)
    assert not (runs / "run-3").exists()
    assert tried(server, hello("run-0")) == (None, "")
    os.utime(runs / "run-1" / DIGEST_FILE, (1, 1))  # it has no data, and nobody comes
    assert tried(server, hello("run-3")) == (None, "")
    assert not (runs / "run-1").exists()


def test_the_secret_of_a_run_is_not_shown(server: Served, runs: Path) -> None:
    assert tried(server, hello("night"), run_file("night"), rank_file(0)) == (None, "")
    pinned = runs / "night" / DIGEST_FILE
    assert pinned.stat().st_mode & 0o777 == 0o600
    assert RUN_SECRET not in "".join(map(str, files_below(runs / "night").values()))
    run_secret(runs / SLOW)  # as a job leaves it that writes here itself
    for path in (pinned, runs / SLOW / SECRET_FILE, runs / SLOW / DIGEST_FILE):
        name, content = path.parent.name, path.read_text().strip()
        with pytest.raises(UserError, match="SQL"):
            server.hub.run(name, WAIT_S).sql(f"SELECT * FROM read_text('{path}')")
        for address in (
            f"/run/{name}/{path.name}",
            f"/assets/x/../../{name}/{path.name}",
            f"/api/watch?run={name}",
            f"/api/run/{name}/overview",
        ):
            assert content not in server.ask(address)[1].decode(errors="replace")
    assert (runs / SLOW / SECRET_FILE).stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("version", [{}, {"version": 1}, {"version": 99}, {"version": "x" * 999}])
def test_hooks_of_another_version_are_refused_with_a_remedy(
    server: Served, version: dict[str, Any]
) -> None:
    greeting = json.loads(hello("night"))
    del greeting["version"]
    code, reason = tried(server, json.dumps({**greeting, **version}))
    assert code == closing.OTHER_VERSION
    assert "install the server's version of rankscope-hooks" in reason


@pytest.mark.parametrize(
    "wrong",
    [
        {"secret": ""},
        {"secret": "short"},
        {"secret": None},
        {"secret": ["x" * 40]},
        {"secret": "x" * 100_000},
        {"start": ""},
        {"start": "../../x"},
        {"start": 5},
    ],
)
def test_an_invalid_secret_or_start_is_refused(
    server: Served, runs: Path, wrong: dict[str, Any]
) -> None:
    assert tried(server, hello("night", **wrong))[0] == closing.MALFORMED
    assert not (runs / "night").exists()


def test_a_file_that_is_not_a_segment_becomes_a_problem_of_the_run(
    server: Served, runs: Path
) -> None:
    with joined(server, hello("night")) as opened:
        good = [run_file("night"), rank_file(0), steps_file(number=1)]
        bad = [
            segment(b"PAR1 rows PAR1", number=3),
            segment(steps_file(rank=5).data, number=4),
            segment(steps_file().data, name="spans"),
        ]
        received = answers(opened, *good, *bad)
        assert [one["type"] for one in received] == ["stored"] * 6  # the rank need not keep them
        assert [bool(one.get("text")) for one in received] == [False] * 3 + [True] * 3
    assert server.hub.catch_up("night", WAIT_S)
    run = server.hub.run("night", WAIT_S)
    problems = "\n".join(run.problems)
    assert problems.count("was set aside in quarantine/") == 3
    assert "cannot be read as Parquet" in problems
    assert "has rows of rank 5" in problems
    assert "holds the table 'steps'" in problems
    assert run.sql("SELECT count(*) AS n FROM steps").to_pylist() == [{"n": 3}]
    assert len(list((runs / "night" / "quarantine").glob("*.parquet"))) == 3


def test_invalid_files_do_not_come_forever(
    server: Served, runs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.live.shipped_files.MOST_UNFIT", 2)
    with line(server) as opened, line(server) as other:
        opened.send(hello("night"))
        opened.recv(WAIT_S)
        received = answers(opened, *(segment(b"rows", number=number) for number in range(3)))
        assert [one["type"] for one in received] == ["stored", "stored", "not_stored"]
        other.send(hello("night", rank=1))
        other.recv(WAIT_S)
        (answer,) = answers(other, steps_file(rank=1))
        assert answer == {"type": "stored", "name": steps_file(rank=1).name}
    assert len(list((runs / "night" / "quarantine").glob("*.parquet"))) == 2
