"""The first process of an import is started ahead, is used, and does not stay."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from app.cli import main
from ingest.imports import pool
from ingest.imports.worker_command import HERE_VARIABLE, first_started_ahead, worker_command
from ingest.process_tuning import start
from tests.hostile.fuzz.seeds import seeds


@pytest.fixture(autouse=True)
def _in_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(HERE_VARIABLE)


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_it_is_started_before_libraries_are_loaded() -> None:
    program = (
        "import sys; import app.cli, app.commands.import_files, ingest.imports.worker_command\n"
        "print({'numpy', 'pyarrow', 'duckdb', 'pandas'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout == "set()\n", done.stderr


def test_what_is_started_ahead_is_taken_once() -> None:
    with first_started_ahead():
        first, second = start(worker_command()), start(worker_command())
        try:
            assert first.process.pid != second.process.pid
            for one in (first, second):
                assert one.process.stdout is not None
                assert one.process.stdout.readline() == b'{"ready": true}\n'
        finally:
            first.end()
            second.end()


def test_unused_it_ends_with_the_block() -> None:
    before = _children()
    with first_started_ahead():
        other = start([sys.executable, "-c", "pass"])  # another command is no use of it
        other.end()
        [pid] = _children() - before
        assert _is_alive(pid)
    assert not _is_alive(pid)


def _children() -> set[int]:
    """Processes of this one; tests before may have left some that serve them all."""
    texts = [path.read_text() for path in Path("/proc/self/task").glob("*/children")]
    return {int(pid) for pid in " ".join(texts).split()}


def test_the_verb_reads_with_it_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    name, content = seeds()["kineto"][0]
    (tmp_path / name).write_bytes(content)
    before, started = _children(), list[list[str]]()

    def noted(command: list[str]) -> object:
        started.append(command)
        return start(command)

    monkeypatch.setattr("ingest.imports.worker_handle.start", noted)
    monkeypatch.setattr(subprocess, "Popen", _counted(popened := []))
    assert main(["import", str(tmp_path / name), "--into", str(tmp_path / "runs")]) == 0
    assert len(started) == len(popened) == 1
    assert pool.worker_command() == started[0]
    assert _children() == before


def _counted(seen: list[object]) -> type[subprocess.Popen[bytes]]:
    class Counted(subprocess.Popen):  # type: ignore[type-arg]
        def __init__(self, *given: object, **named: object) -> None:
            seen.append(given)
            super().__init__(*given, **named)  # type: ignore[arg-type]

    return Counted
