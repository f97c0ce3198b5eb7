"""`rankscope demo`: what it refuses, prints and serves, and that nothing of it stays behind."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import urlopen

import pytest
from websockets.exceptions import ConnectionClosedError
from websockets.sync.client import connect

from app.cli import main

WAIT_S = 120


def test_without_torch_it_prints_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert main(["demo"]) == 2
    assert "needs torch: pip install 'rankscope[torch]'" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--fault", "slow-rank=9"], "names rank 9 of 8"),
        (
            ["--fault", "kill=1@99", "--steps", "2"],
            "begins in step 99 and the last step is 1",
        ),
        (["--fault", "slow"], "unknown fault 'slow'"),
        (["--steps", "0"], "--steps is 0"),
    ],
)
def test_wrong_arguments_start_nothing(
    arguments: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["demo", "--runs", str(tmp_path), *arguments]) == 2
    assert message in capsys.readouterr().err
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


@pytest.mark.long
@pytest.mark.torch
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_it_prints_steps_and_ctrl_c_leaves_no_process(tmp_path: Path) -> None:
    output = tmp_path / "output"
    environ = {key: v for key, v in os.environ.items() if not key.startswith("TRACE_HOOKS")}
    command = [str(Path(sys.executable).with_name("rankscope")), "demo", "--steps", "500"]
    command += ["--runs", str(tmp_path), "--port", "0", "--no-browser"]
    command += ["--fault", "hang=0@3,s=100"]  # with steps to show, and no more work than that
    with output.open("w") as file:
        demo = subprocess.Popen(command, env=environ, stdout=file, stderr=file)
    try:
        until = time.monotonic() + WAIT_S
        while not re.search(r"^ +1 ", output.read_text(), re.MULTILINE):
            assert demo.poll() is None, output.read_text()
            assert time.monotonic() < until, output.read_text()
            time.sleep(0.2)
        assert len(processes_of(tmp_path)) >= 10  # the demo, the launcher and 8 ranks
        (url,) = urls(output.read_text())
        assert output.read_text().index(url) < output.read_text().index("starting 8 ranks")
        assert pulse_of(url)["last_step"] >= 1
        demo.send_signal(signal.SIGINT)
        assert demo.wait(WAIT_S) == 130
    finally:
        demo.terminate()
        demo.wait(30)
    printed = output.read_text()
    who = r"rank \d \(pp \d dp \d tp \d\) \d\.\d\dx.* % \d"
    assert re.search(rf"^ +\d+ +\d+ ms  {who}", printed, re.M)
    assert printed.endswith("stopping the job\nrankscope demo: interrupted\n")
    assert processes_of(tmp_path) == []


@pytest.mark.torch
@pytest.mark.long
def test_it_serves_on_after_the_job(tmp_path: Path) -> None:
    output = tmp_path / "output"
    environ = {key: v for key, v in os.environ.items() if not key.startswith("TRACE_HOOKS")}
    command = [str(Path(sys.executable).with_name("rankscope")), "demo", "--steps", "2", "--keep"]
    command += ["--runs", str(tmp_path / "runs"), "--port", "0", "--no-browser"]
    with output.open("w") as file:
        demo = subprocess.Popen(command, env=environ, stdout=file, stderr=file)
    try:
        until = time.monotonic() + WAIT_S
        while "the dashboard stays until Ctrl-C" not in output.read_text():
            assert demo.poll() is None, output.read_text()
            assert time.monotonic() < until, output.read_text()
            time.sleep(0.2)
        (url,) = urls(output.read_text())
        assert re.search(r"^ +1 +\d+ ms", output.read_text(), re.M)  # the last step is printed, too
        status = pulse_of(url)
        assert (status["state"], status["last_step"]) == ("finished", 1)
        demo.send_signal(signal.SIGINT)
        assert demo.wait(WAIT_S) == 0
    finally:
        demo.terminate()
        demo.wait(30)


def urls(printed: str) -> list[str]:
    return re.findall(r"http://\S+", printed)


def pulse_of(url: str) -> dict[str, Any]:
    """The first message of the live socket of a page's run, once that is indexed."""
    parts = urlsplit(url)
    name = parts.path.split("/")[2]
    until = time.monotonic() + WAIT_S
    while True:
        with connect(f"ws://{parts.netloc}/api/live?run={name}") as opened:
            try:
                message: dict[str, Any] = json.loads(opened.recv(WAIT_S))
                return message
            except ConnectionClosedError as error:
                if "being indexed" not in str(error):
                    raise
        assert time.monotonic() < until
        time.sleep(0.2)


NO_TORCH = """
import sys
class NoTorch:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] == "torch":
            raise AssertionError("torch was imported")
sys.meta_path.insert(0, NoTorch())
from app.cli import main
sys.exit(main())
"""


@pytest.fixture
def replay(tmp_path: Path) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    started = []

    def start(**environ: str) -> subprocess.Popen[str]:
        clean = {k: v for k, v in os.environ.items() if k not in ("SSH_CONNECTION", "DISPLAY")}
        started.append(
            subprocess.Popen(
                [sys.executable, "-c", NO_TORCH, "demo", "--replay", "--port", "0"],
                env=clean | {"TMPDIR": str(tmp_path)} | environ,
                text=True,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
            )
        )
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.communicate()


def test_a_replay_is_there_without_torch(
    replay: Callable[..., subprocess.Popen[str]], tmp_path: Path
) -> None:
    demo = replay()
    assert demo.stdout is not None
    (url,) = urls(demo.stdout.readline())
    with urlopen(url, timeout=WAIT_S) as page:
        assert b"main.mjs" in page.read()
    status = pulse_of(url)
    assert (status["run"], status["state"], status["last_step"]) == ("slow_rank", "finished", 13)
    assert len(list(tmp_path.iterdir())) == 1
    demo.send_signal(signal.SIGINT)
    printed, errors = demo.communicate(timeout=WAIT_S)
    assert (demo.returncode, printed, errors) == (0, "", "")
    assert list(tmp_path.iterdir()) == []


def test_the_browser_opens_where_there_is_a_display_and_sigterm_leaves_nothing_either(
    replay: Callable[..., subprocess.Popen[str]], tmp_path: Path
) -> None:
    opened, left = tmp_path / "opened", tmp_path / "left"
    left.mkdir()
    browser = tmp_path / "browser"
    browser.write_text(f'#!/bin/sh\necho "$1" > {opened}\n')
    browser.chmod(0o755)
    demo = replay(DISPLAY=":9", BROWSER=f"{browser} %s", TMPDIR=str(left))
    assert demo.stdout is not None
    (url,) = urls(demo.stdout.readline())
    until = time.monotonic() + WAIT_S
    while not (opened.exists() and opened.read_text()):
        assert time.monotonic() < until
        time.sleep(0.05)
    assert opened.read_text().strip() == url
    assert list(left.iterdir())
    demo.terminate()
    assert demo.communicate(timeout=WAIT_S) == ("", "")
    assert demo.returncode == 128 + signal.SIGTERM
    assert list(left.iterdir()) == []


def test_a_replay_plants_no_faults(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo", "--replay", "--fault", "gc=1"]) == 2
    assert "--replay opens a recorded run" in capsys.readouterr().err
