"""What the demo prints of its job: no slow or failed query ends it."""

from __future__ import annotations

import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest

from app.commands import demo_job
from app.runs.hub import Hub
from ingest.errors import UserError
from ingest.run import Run
from ingest.stopping import Interrupted
from sample_traces import RECORDED
from tests.waiting import wait_until

TOO_SLOW = Interrupted("the query took longer than 60 s; choose fewer ranks or steps")


@pytest.fixture
def job() -> Iterator[subprocess.Popen[bytes]]:
    """A job that ends by itself after two seconds."""
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(2)"]) as process:
        yield process
        process.kill()


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    shutil.copytree(RECORDED / "slow_rank", tmp_path / "job")
    monkeypatch.setattr(demo_job, "PRINT_EVERY_S", 0.0)
    monkeypatch.setattr(demo_job, "STATUS_EVERY_S", 0.5)
    monkeypatch.setattr(demo_job, "LAST_PASS_S", 1.0)
    opened = Hub(tmp_path)
    yield opened
    opened.close()


def fail(monkeypatch: pytest.MonkeyPatch, error: Exception, times: float) -> None:
    """Have the first queries of any run end with this error."""
    ask, left = Run.ask, [times]

    def failing(run: Run, name: str, **params: Any) -> Any:
        left[0] -= 1
        if left[0] >= 0:
            raise error
        return ask(run, name, **params)

    monkeypatch.setattr(Run, "ask", failing)


@pytest.fixture
def followed(
    hub: Hub, job: subprocess.Popen[bytes], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> Callable[[], list[str]]:
    """Follows the job to its own end; the lines that were printed."""

    def follow() -> list[str]:
        demo_job.follow(hub, tmp_path / "job", job)
        assert job.poll() == 0  # nobody ended it
        return capsys.readouterr().out.splitlines()

    return follow


@pytest.mark.sampled
@pytest.mark.parametrize("error", [TOO_SLOW, duckdb.ConnectionException("closed"), OSError("gone")])
def test_a_failed_query_is_tried_again(
    error: Exception, followed: Callable[[], list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    fail(monkeypatch, error, times=4)
    lines = followed()
    steps = [int(line.split()[0]) for line in lines if line.lstrip()[:1].isdigit()]
    assert steps == list(range(14))
    assert not any("could not be printed" in line for line in lines)


def test_the_ranks_are_asked_to_publish_often(hub: Hub, tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"]) as job:
        terminal = threading.Thread(target=demo_job.follow, args=(hub, tmp_path / "job", job))
        terminal.start()
        wait_until((tmp_path / "job" / "watched").exists)
        job.kill()
        terminal.join()


def test_queries_that_always_fail_print_a_sentence_and_the_job_goes_on(
    followed: Callable[[], list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    fail(monkeypatch, TOO_SLOW, times=float("inf"))
    _, *waiting, last = followed()
    assert 1 <= len(waiting) <= 6
    assert all(str(TOO_SLOW) in line and "the job continues" in line for line in waiting)
    assert last == f"the last steps could not be printed: {TOO_SLOW}"


def test_a_run_that_cannot_be_indexed_does_not_end_the_job(
    hub: Hub, job: subprocess.Popen[bytes], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "job" / "run.json").write_text("{")
    with pytest.raises(UserError):
        hub.run("job")
    demo_job.follow(hub, tmp_path / "job", job)
    assert job.poll() == 0
    assert "the last steps could not be printed" in capsys.readouterr().out
