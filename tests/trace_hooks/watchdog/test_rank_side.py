"""A rank's side of the watchdog: where they meet."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.trace_hooks.processes import begin, environment, run
from tests.trace_hooks.watchdog.on_host import watchdogs_of
from tests.waiting import wait_until
from trace_hooks.watchdog.rank_side import meeting_folder


def test_the_meeting_folder_is_this_users_alone(tmp_path: Path) -> None:
    mine = tmp_path / f"trace_hooks-{os.getuid()}"
    mine.mkdir(mode=0o755)
    assert meeting_folder(tmp_path, "launch").parent.stat().st_mode & 0o777 == 0o700
    elsewhere = tmp_path / "elsewhere"
    (elsewhere / "target").mkdir(parents=True)
    (elsewhere / mine.name).symlink_to(elsewhere / "target")
    with pytest.raises(PermissionError, match="another user"):
        meeting_folder(elsewhere, "launch")


def test_any_first_rank_of_a_host_starts_it(tmp_path: Path) -> None:
    """Local rank 0 may not be traced, or there may be none."""
    process = begin(
        tmp_path,
        "import time\nimport trace_hooks as th\nth.start()\ntime.sleep(60)\n",
        RANK="3",
        LOCAL_RANK="3",
        WORLD_SIZE="8",
    )
    wait_until(lambda: watchdogs_of(tmp_path))
    process.kill()
    process.communicate(timeout=90)
    wait_until(lambda: not watchdogs_of(tmp_path))


def test_stacks_are_not_written_into_a_file_of_the_job(tmp_path: Path) -> None:
    """Daemons close all descriptors, and open files of their own under their numbers."""
    job = """
import os, time
import trace_hooks as th
tracer = th.start()
side = tracer._recording._rank_side
os.closerange(3, 64)
files = [open(f"{number}.txt", "w+") for number in range(15)]
time.sleep(2.5)
os.kill(os.getpid(), side._signal)
assert not any(os.fstat(file.fileno()).st_size for file in files)
assert "most recent call first" in side._stem.with_suffix(".stacks").read_text()
"""
    code, _, err = run(tmp_path, job)
    assert (code, err) == (0, "")


@pytest.mark.long
def test_a_host_has_its_watchdog_where_the_relay_cannot_be_started(tmp_path: Path) -> None:
    """It removes its folder once no rank is left."""
    broken, folder = tmp_path / "broken", tmp_path / "meeting"
    for made in (broken, folder):
        made.mkdir()
    (broken / "websockets.py").write_text("raise ImportError('of an unknown version')\n")
    given = environment(tmp_path, TRACE_HOOKS_SERVER="ws://127.0.0.1:9", TRACE_HOOKS_TOKEN="t" * 20)
    given["PYTHONPATH"] = f"{broken}:{given['PYTHONPATH']}"
    options = [str(folder), "1", "1", "1", "relay"]
    (folder / "left").touch()
    subprocess.run(
        [sys.executable, "-m", "trace_hooks.watchdog", *options], env=given, check=True, timeout=90
    )
    wait_until(lambda: not folder.exists())
