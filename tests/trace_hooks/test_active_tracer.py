"""The one tracer of a process: off, started twice, forked."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import trace_hooks as th
from tests.trace_hooks.tracers import rank_file, rows, start

pytestmark = pytest.mark.usefixtures("plain_environment")


def test_starting_twice_gives_the_same_tracer_and_stopping_makes_room(tmp_path: Path) -> None:
    first = start(tmp_path, run="one")
    assert th.start(tmp_path, run="two") is first
    first.stop()
    second = start(tmp_path, run="one")
    assert second is not first
    second.stop()
    attempts = {path.name for path in (tmp_path / "one" / "ranks").iterdir()}
    assert attempts == {"0000-00000.json", "0001-00000.json"}


def test_off_means_no_file_and_the_same_calls(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRACE_HOOKS", "0")
    tracer = th.start(tmp_path / "runs", level="no such level")
    with tracer.step(), tracer.span("x"):
        tracer.log(loss=1)
        tracer.mark("note", "x")
        tracer.watch(object())
    tracer.stop()
    assert not (tmp_path / "runs").exists()


def test_a_forked_child_writes_nothing(tmp_path: Path) -> None:
    tracer = start(tmp_path)
    with tracer.step():
        pid = os.fork()
        if pid == 0:
            with tracer.span("in the child"):
                tracer.mark("note", "in the child")
            tracer.stop()
            os._exit(0 if not tracer.recorder.rows else 1)
        assert os.waitpid(pid, 0)[1] == 0
    tracer.stop()
    assert not [row for row in rows(tmp_path, "spans") if row["name"] == "in the child"]
    assert rank_file(tmp_path)["pid"] == os.getpid()
