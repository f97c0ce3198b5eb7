"""`rankscope demo`: what it refuses, what it prints, and that nothing of it stays behind."""

from __future__ import annotations

import importlib.util
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from app.cli import main

WAIT_S = 120


def test_without_torch_it_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert main(["demo"]) == 2
    assert "needs torch: pip install 'rankscope[torch]'" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--fault", "slow-rank=9"], "names rank 9 of 8"),
        (["--fault", "slow"], "unknown fault 'slow'"),
        (["--steps", "0"], "--steps is 0"),
    ],
)
def test_wrong_arguments_start_nothing(
    arguments: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["demo", "--runs", str(tmp_path), *arguments]) == 2
    assert said in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def processes_of(runs: Path) -> list[str]:
    """Command lines of running processes that were started with this folder of runs."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            words = (process / "cmdline").read_bytes().split(b"\0")
        except OSError:  # it has just ended
            continue
        if str(runs).encode() in words:
            found.append(b" ".join(words).decode())
    return found


@pytest.mark.torch
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_it_prints_steps_and_ctrl_c_leaves_no_process(tmp_path: Path) -> None:
    output = tmp_path / "output"
    environ = {key: v for key, v in os.environ.items() if not key.startswith("TRACE_HOOKS")}
    command = [str(Path(sys.executable).with_name("rankscope")), "demo", "--steps", "500"]
    command += ["--runs", str(tmp_path)]
    with output.open("w") as file:
        demo = subprocess.Popen(command, env=environ, stdout=file, stderr=file)
    try:
        until = time.monotonic() + WAIT_S
        while not re.search(r"^ +1 ", output.read_text(), re.MULTILINE):
            assert demo.poll() is None, output.read_text()
            assert time.monotonic() < until, output.read_text()
            time.sleep(0.2)
        assert len(processes_of(tmp_path)) >= 10  # the demo, the launcher and 8 ranks
        demo.send_signal(signal.SIGINT)
        assert demo.wait(30) == 130
    finally:
        demo.terminate()
        demo.wait(30)
    printed = output.read_text()
    assert re.search(r"^ +1 +\d+ ms  rank \d \(pp \d dp \d tp \d\) \d\.\d\dx.* % \d", printed, re.M)
    assert "interrupted" in printed
    assert processes_of(tmp_path) == []
