"""The drain thread writes what there is, and what the hooks have cost."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
import torch

from tests.trace_hooks.test_tracer import Block
from tests.trace_hooks.tracers import rank_file, rows, start
from trace_hooks.recording import guard

pytestmark = pytest.mark.usefixtures("plain_environment")


@pytest.fixture
def own_files(plain_environment: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a collector: the rank writes files itself."""
    monkeypatch.setenv("TRACE_HOOKS_COLLECTOR", "0")


def test_data_is_on_disk_within_a_second(tmp_path: Path, own_files: None) -> None:
    tracer = start(tmp_path)
    with tracer.step():
        pass
    with tracer.step(), tracer.span("slow"):
        pass
    time.sleep(1.3)  # a second, and the time to write
    assert any(row["name"] == "slow" for row in rows(tmp_path, "spans"))
    assert [row["step"] for row in rows(tmp_path, "steps")] == [0, 1]
    tracer.stop()


def test_what_each_source_has_cost_is_written_and_adds_up(tmp_path: Path) -> None:
    model = torch.nn.Sequential(Block(), Block())
    tracer = start(tmp_path, model=model, sources=["modules", "optimizer", "gc"])
    for number in range(200):
        with tracer.step(number):
            model(torch.ones(2, 3, 4)).sum().backward()
    time.sleep(1.0)  # something has been written before the last count
    tracer.stop()
    selected = rows(tmp_path, "hook_costs")
    last = {(r["thread"], r["source"]): r["cpu_ns"] for r in selected}  # they only grow
    assert {("main", "modules"), ("main", "tracer"), ("trace_hooks drain", "writing")} <= set(last)
    assert {thread.rstrip("0123456789") for thread, _ in last} <= {
        "main",
        "autograd ",
        "trace_hooks drain",
        "trace_hooks clocks",
    }
    total = rows(tmp_path, "heartbeats")[-1]["self_ns"]
    assert sum(last.values()) == pytest.approx(total, rel=0.05)
    assert guard.account.errors == {}


def test_what_was_dropped_is_in_the_heartbeats(tmp_path: Path, own_files: None) -> None:
    folder = tmp_path / "runs"
    folder.write_text("in the way")
    tracer = start(folder, run="r")
    with tracer.step(), tracer.span("lost"):
        pass
    time.sleep(1.0)
    folder.unlink()
    until_s = time.monotonic() + 60
    while not any(folder.glob("*/segments/heartbeats-*")) and time.monotonic() < until_s:
        time.sleep(0.1)  # the pause between two tries has grown to seconds
    with tracer.step(), tracer.span("kept"):
        pass
    tracer.stop()
    assert [r["name"] for r in rows(folder, "spans") if r["kind"] == "host"] == ["kept"]
    assert rows(folder, "heartbeats")[-1]["dropped"] > 0
    assert rank_file(folder)["hooks"]["dropped"] > 0


def test_many_rows_make_larger_segments_not_more_drops(tmp_path: Path) -> None:
    tracer = start(tmp_path)
    recorder = tracer.recorder
    site = recorder.site("x", "host")
    for number in range(60_000):
        recorder.add_span(site, number, number + 1, step=0)
    tracer.stop()
    assert len(rows(tmp_path, "spans")) >= 60_000
    assert rows(tmp_path, "heartbeats")[-1]["dropped"] == 0
