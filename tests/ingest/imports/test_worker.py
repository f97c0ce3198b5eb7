"""A process that reads files, by its orders and answers, without the pool that gives them."""

from __future__ import annotations

import json
import resource
import subprocess
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from ingest.imports.worker import FINDINGS, seconds_allowed
from ingest.imports.worker_command import worker_command
from ingest.limits import MIB, limits
from tests.hostile.files.test_archives import trace


class Orders:
    """A running process; `given` is what it answers to one order."""

    def __init__(self, temporary: Path) -> None:
        self.process = subprocess.Popen(
            worker_command(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert self._answer() == {"ready": True}
        self._send({"temporary": str(temporary)})

    def _send(self, order: dict[str, Any]) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(order) + "\n")
        self.process.stdin.flush()

    def _answer(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        answer: dict[str, Any] = json.loads(self.process.stdout.readline())
        return answer

    def given(self, order: dict[str, Any]) -> list[dict[str, Any]]:
        self._send(order)
        answers = [self._answer()]
        while not answers[-1].keys() & {"done", "refused"}:
            answers.append(self._answer())
        return answers


@pytest.fixture(scope="module")
def orders(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Orders]:
    running = Orders(tmp_path_factory.mktemp("temporary"))
    yield running
    with running.process:  # whose orders end
        pass
    assert running.process.returncode == 0


def read(path: Path, into: Path) -> dict[str, Any]:
    """The order to read a file."""
    into.mkdir(parents=True, exist_ok=True)
    return {"read": str(path), "bytes": path.stat().st_size, "into": str(into), "show": ""}


def test_a_file_is_read_and_put_together(orders: Orders, tmp_path: Path) -> None:
    path, found, run = tmp_path / "a.json", tmp_path / "found", tmp_path / "run"
    path.write_bytes(trace(3))
    answers = orders.given(read(path, found / "0"))
    source, part, done = (answer for answer in answers if answer.keys() != {"bytes"})
    assert source == {"source": str(path), "number": 0}
    assert part == {"part": str(path), "number": 0, "format": "kineto", "start_ns": 1505}
    assert done == {"done": True}
    run.mkdir()
    order = {"put_together": str(found), "format": "kineto", "run": str(run)}
    assert orders.given(order) == [{"done": True}]
    assert json.loads((found / FINDINGS).read_text())["problems"] == []
    assert pq.read_table(run / "segments" / "spans-0000-00003-00000000.parquet")[
        "ts_ns"
    ].to_pylist() == [1505]


def test_of_an_archive_each_file_is_read_once(orders: Orders, tmp_path: Path) -> None:
    path = tmp_path / "all.tar"
    with tarfile.open(path, "w") as archive:
        for rank in range(2):
            (tmp_path / f"{rank}.json").write_bytes(trace(rank))
            archive.add(tmp_path / f"{rank}.json", f"{rank}.json")
    order = read(path, tmp_path / "found")
    parts = [answer["part"] for answer in orders.given(order) if "part" in answer]
    assert parts == [f"{path}/{rank}.json" for rank in range(2)]
    again = orders.given(order)  # as a second process would have it
    assert [answer for answer in again if "bytes" not in answer] == [{"done": True}]


def test_what_no_file_is_to_blame_for_is_refused(orders: Orders, tmp_path: Path) -> None:
    missing = tmp_path / "missing" / "run"
    order = {"put_together": str(tmp_path), "format": "kineto", "run": str(missing)}
    [answer] = orders.given(order)
    assert answer["refused"].startswith("the import cannot be written (No such file or directory)")
    assert not answer["disk_full"]


def test_the_process_has_limits(orders: Orders, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("nothing known")
    orders.given(read(tmp_path / "a.txt", tmp_path / "found"))
    bounds = limits()
    limit = {
        name: resource.prlimit(orders.process.pid, getattr(resource, f"RLIMIT_{name}"))[0]
        for name in ("CORE", "AS", "FSIZE", "CPU")
    }
    assert limit["CORE"] == 0
    assert limit["AS"] == bounds.max_reader_mib * MIB
    assert limit["FSIZE"] == bounds.max_spooled_mib * MIB
    assert 0 <= limit["CPU"] - 2 * seconds_allowed(0) < 10
    assert seconds_allowed(7 * MIB) == seconds_allowed(0) + 7 == bounds.max_file_seconds + 7
