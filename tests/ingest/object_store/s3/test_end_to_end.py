"""The commands on a bucket: import into it, serve it while a run grows, start again, stay within
the cache's size.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.parse import urlsplit

import pytest
from pyarrow.fs import S3FileSystem

from app.cli import main
from app.commands import stored_folder
from ingest.object_store.address import parse_address
from ingest.object_store.connection import connected
from ingest.object_store.mirror import Mirror
from ingest.run_folder.run_files import is_run_folder
from sample_traces import RECORDED
from tests.app.commands.test_info import TRACE
from tests.app.server.served import ask
from tests.app.server.test_serving import Command
from tests.ingest.object_store.s3.conftest import BUCKET, SECRET
from tests.ingest.object_store.s3.faulty_proxy import FaultyProxy, every, slow, slow_down
from tests.runs_builder import RunBuilder, two_rank_run
from tests.waiting import wait_until

pytestmark = pytest.mark.s3
ADDRESS = f"s3://{BUCKET}/runs"


@contextmanager
def serving(*arguments: str) -> Iterator[Callable[..., Any]]:
    """`rankscope serve` of the bucket; asks for JSON, None where the answer is an error."""
    command = Command(ADDRESS, "--port", "0", *arguments)
    try:
        address = urlsplit(command.url()).netloc

        def asked(path: str, sql: str = "") -> Any:
            time.sleep(0.1)  # a page asks no more often
            if sql:
                body = json.dumps({"sql": sql}).encode()
                status, answer = ask(address, path, "POST", body, X_Rankscope="1")
            else:
                status, answer = ask(address, path)
            return json.loads(answer) if status == 200 else None

        yield asked
        code, printed, errors = command.end(15)
        assert (code, printed) == (0, "")
        assert SECRET not in errors
    finally:
        command.process.kill()
        command.process.communicate()


def states(asked: Callable[..., Any]) -> dict[str, str]:
    return {row["name"]: row["state"] for row in asked("/api/runs")["runs"]}


def steps(asked: Callable[..., Any], run: str) -> list[int] | None:
    """Steps of a run by its saved query; None before it can be asked."""
    answer = asked(f"/api/run/{run}/query?q=steps")
    return answer and [row[0] for row in answer["rows"]]


def put(files: S3FileSystem, folder: Path) -> None:
    """Store what is new in a run folder, run.json last."""
    paths = [path for path in folder.rglob("*") if path.is_file()]
    for path in sorted(paths, key=lambda path: path.name == "run.json"):
        key = f"{BUCKET}/runs/{folder.name}/{path.relative_to(folder)}"
        if path.suffix == ".json" or not files.get_file_info(key).is_file:
            with files.open_output_stream(key) as target:
                target.write(path.read_bytes())


def test_an_import_stores_the_run_and_knows_it_again(
    tmp_path: Path,
    proxy: FaultyProxy,
    files: S3FileSystem,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    trace = tmp_path / "rank-4.json"
    trace.write_text(TRACE)
    proxy.faults.append(every(5, slow_down))
    arguments = ["import", str(trace), "--into", ADDRESS, "--name", "mine", "--json"]
    assert main(arguments) == 0
    first = json.loads(capsys.readouterr().out)
    assert first["folder"] == f"{ADDRESS}/{first['run']}"
    assert not first["known"]
    assert files.get_file_info(f"{BUCKET}/runs/{first['run']}/run.json").is_file
    num_put = proxy.asked("PUT", "/runs/")
    assert main([*arguments[:-2], "yours", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == first | {"known": True}
    assert proxy.asked("PUT", "/runs/") == num_put
    with serving() as asked:
        assert states(asked) == {first["run"]: "stored"}
        wait_until(lambda: asked(f"/api/run/{first['run']}/layout"))
        wait_until(lambda: states(asked) == {first["run"]: "finished"})


def test_a_run_grows_while_it_is_served_and_is_not_fetched_again_by_the_next_server(
    tmp_path: Path, proxy: FaultyProxy, files: S3FileSystem
) -> None:
    builder = RunBuilder(tmp_path / "growing", world_size=1)
    builder.rank_files()
    builder.step(0, 0, 0, 90)
    builder.publish()
    put(files, builder.folder)
    proxy.faults.append(every(7, slow_down))
    with serving() as asked:
        wait_until(lambda: steps(asked, "growing") == [0])
        for step in (1, 2, 3):
            builder.step(0, step, step * 100, step * 100 + 90)
            builder.publish()
            put(files, builder.folder)
            wait_until(lambda last=step: steps(asked, "growing") == list(range(last + 1)))
    num_fetched = proxy.asked("GET", "/segments/")
    with serving() as asked:
        wait_until(lambda: steps(asked, "growing") == [0, 1, 2, 3])
        builder.step(0, 4, 400, 490)
        builder.publish()
        put(files, builder.folder)
        wait_until(lambda: steps(asked, "growing") == [0, 1, 2, 3, 4])
    assert proxy.asked("GET", "/segments/") - num_fetched <= 2  # the new one, perhaps twice


def test_pages_and_sql_answer_from_the_bucket(proxy: FaultyProxy) -> None:
    assert main(["import", str(RECORDED / "slow_rank"), "--into", ADDRESS]) == 0
    with serving() as asked:
        found = wait_until(lambda: asked("/api/run/slow_rank/findings"))
        assert "Rank 5 is slow" in json.dumps(found)
        counted = asked("/api/run/slow_rank/query", "SELECT count(DISTINCT rank) FROM steps")
        assert counted["rows"] == [[8]]
        wait_until(lambda: states(asked) == {"slow_rank": "finished"})


def test_a_server_that_is_killed_while_it_fetches_loses_nothing_and_counts_nothing_twice(
    tmp_path: Path, proxy: FaultyProxy, files: S3FileSystem
) -> None:
    builder = RunBuilder(tmp_path / "killed", world_size=1)
    builder.rank_files()
    for step in range(40):  # a segment each
        builder.step(0, step, step * 100, step * 100 + 90)
        builder.publish()
    put(files, builder.folder)
    proxy.faults.append(slow)
    for num_more in (5, 20):
        command = Command(ADDRESS, "--port", "0")
        address = urlsplit(command.url()).netloc
        num_before = proxy.asked("GET", "/segments/")
        ask(address, "/api/run/killed/layout")
        wait_until(lambda least=num_before + num_more: proxy.asked("GET", "/segments/") > least)
        command.process.kill()
        command.process.communicate()
    proxy.faults.clear()
    with serving() as asked:
        wait_until(lambda: steps(asked, "killed") == list(range(40)))


def test_a_run_is_stored_as_its_job_writes_it(
    tmp_path: Path, proxy: FaultyProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stored_folder, "FOLLOW_S", 0.1)
    monkeypatch.setattr(stored_folder, "_SETTLE_S", 0.1)
    builder = RunBuilder(tmp_path / "followed", world_size=1)
    builder.rank_files()
    arguments = ["import", str(builder.folder), "--into", ADDRESS, "--follow"]
    codes: list[int] = []
    storing = Thread(target=lambda: codes.append(main(arguments)))
    storing.start()
    with serving() as asked:
        for step in range(3):
            builder.step(0, step, step * 100, step * 100 + 90)
            builder.publish()
            wait_until(lambda last=step: steps(asked, "followed") == list(range(last + 1)))
        builder.rank_files(end={"ts_ns": 1, "status": "finished", "error": ""})
        wait_until(lambda: states(asked) == {"followed": "finished"})
    storing.join()
    assert codes == [0]


def test_the_cache_keeps_its_size(tmp_path: Path, proxy: FaultyProxy, files: S3FileSystem) -> None:
    for name in ("first", "second", "third"):
        put(files, two_rank_run(tmp_path / name).folder)
    folder = tmp_path / "first"
    num_bytes = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    store = connected(parse_address(ADDRESS))
    with Mirror(store, tmp_path / "own", 2.5 * num_bytes, unused_s=0.5) as mirror:
        for name in ("first", "second", "third", "first"):
            wait_until(lambda name=name: fetched(mirror, name))
            here = [run.name for run in mirror.folder.iterdir() if is_run_folder(run)]
            assert name in here
            assert len(here) <= 2


def fetched(mirror: Mirror, name: str) -> bool:
    """Whether a run is here, after somebody has asked for it."""
    mirror.use(name)
    return mirror.is_followed(name)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["serve", "s3://nowhere/runs"], "there is no such bucket"),
        (["serve", f"s3://key:{SECRET}@{BUCKET}/runs"], "credentials in the environment"),
        (["serve", ADDRESS, "--cache-size", "30d"], "--cache-size is '30d'; give a size"),
        (["serve", ADDRESS, "--keep-content", "30d"], "leave --keep-content and"),
        (["serve", ADDRESS, "--job-token", "x" * 20], "leave --job-token out"),
        (["import", "TRACE", "--into", "s3://nowhere/runs"], "there is no such bucket"),
        (["info", f"{ADDRESS}/r"], "only rankscope serve and rankscope import read and write"),
    ],
)
def test_what_cannot_be_is_one_sentence(
    tmp_path: Path,
    proxy: FaultyProxy,
    arguments: list[str],
    sentence: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    trace = tmp_path / "rank-4.json"
    trace.write_text(TRACE)
    assert main([str(trace) if one == "TRACE" else one for one in arguments]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.count("\n") == 1
    assert sentence in printed.err
    assert SECRET not in printed.err
