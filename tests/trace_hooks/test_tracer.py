"""What a user types, and what is in the run folder afterwards."""

from __future__ import annotations

import json
import threading
import time
from pathlib import Path

import pytest
import torch

import trace_hooks as th
from tests.trace_hooks.tracers import rank_file, rows, start
from trace_hooks.recording import guard
from trace_hooks.recording.recorder import SPAN_FIELDS, Recorder, SpanRow
from trace_hooks.tracer import OwnSpan

pytestmark = pytest.mark.usefixtures("plain_environment")


def test_steps_spans_numbers_and_marks_are_written(tmp_path: Path) -> None:
    before_ns = time.time_ns()
    tracer = start(tmp_path, run="night", layout={"pp": 1}, model={"name": "tiny"})
    for number in range(3):
        with tracer.step(10 + number), tracer.span("load", kind="data_fetch"):
            tracer.log(loss=1.0 / (number + 1), tokens=100)
    tracer.log(grad_norm=2.5)  # right after the last step
    tracer.mark("note", "half way", where="here")
    tracer.stop()

    steps = rows(tmp_path, "steps")
    assert [row["step"] for row in steps] == [10, 11, 12]
    assert [row["loss"] for row in steps] == [1.0, 0.5, 1.0 / 3]
    assert [row["grad_norm"] for row in steps] == [None, None, 2.5]
    spans = [row for row in rows(tmp_path, "spans") if row["name"] == "load"]
    assert [(s["step"], s["kind"], s["track"]) for s in spans] == [
        (n, "data_fetch", "main") for n in (10, 11, 12)
    ]
    for step, span in zip(steps, spans, strict=True):
        assert before_ns <= step["start_ns"] <= span["ts_ns"] <= time.time_ns()
        assert span["ts_ns"] + span["dur_ns"] <= step["start_ns"] + step["dur_ns"]
    (mark,) = rows(tmp_path, "marks")
    assert (mark["kind"], mark["text"], json.loads(mark["args"])) == (
        "note",
        "half way",
        {"where": "here"},
    )
    info = json.loads((tmp_path / "night" / "run.json").read_text())
    assert info["run"] == "night"
    assert info["model"] == {"name": "tiny"}
    assert before_ns <= info["created_ns"] <= steps[0]["start_ns"]
    rank = rank_file(tmp_path)
    assert rank["end"]["status"] == "finished"
    assert rank["coords"] == {"pp": 0}
    (clock,) = rows(tmp_path, "clocks")
    assert (clock["offset_ns"], clock["method"]) == (0, "same_host")
    assert rows(tmp_path, "heartbeats")[-1]["dropped"] == 0


def test_own_steps_count_from_0_though_a_batch_was_fetched_before_the_first(tmp_path: Path) -> None:
    tracer = start(tmp_path)
    tracer.steps.begin()  # as the data source does with the first batch
    for _ in range(2):
        with tracer.step():
            pass
    tracer.stop()
    assert [row["step"] for row in rows(tmp_path, "steps")] == [0, 1]


def test_bad_arguments_are_counted_and_do_not_switch_the_call_off(tmp_path: Path) -> None:
    tracer = start(tmp_path)
    with tracer.step():
        tracer.log(wheels=4, lr=0.5)
        tracer.log(loss="a lot")
        tracer.log(loss=0.25)
        with tracer.span("x", kind="dancing"):
            pass
        with tracer.span("y"):
            pass
    with tracer.step("next"):  # type: ignore[arg-type]
        pass
    tracer.stop()
    assert rank_file(tmp_path)["hooks"]["errors"] == {
        "tracer.log": 2,
        "tracer.span_begin": 1,
        "tracer.step_begin": 1,
    }
    assert [(row["loss"], row["lr"]) for row in rows(tmp_path, "steps")] == [(0.25, 0.5)]
    assert {r["name"] for r in rows(tmp_path, "spans") if r["kind"] == "host"} == {"y"}
    errors = [row["text"] for row in rows(tmp_path, "marks") if row["kind"] == "hook_error"]
    assert len(errors) == 3


def test_a_wrong_model_does_not_switch_the_watch_of_the_next_one_off(tmp_path: Path) -> None:
    tracer = th.start(tmp_path, sources=["modules"])
    model = torch.nn.Sequential(torch.nn.Linear(2, 2))
    tracer.watch(None)
    tracer.watch(model)
    with tracer.step():
        model(torch.ones(1, 2)).sum().backward()
    tracer.stop()
    assert rank_file(tmp_path)["hooks"]["errors"] == {"tracer.modules.watch": 1}
    assert "forward" in {row["kind"] for row in rows(tmp_path, "spans")}


def test_a_hook_that_raises_is_counted_and_training_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*args: object) -> None:
        raise RuntimeError("injected")

    tracer = start(tmp_path)
    with tracer.step():
        pass
    time.sleep(0.3)  # every chore has had a turn
    names = [n for n in guard.HOOKS if n.startswith(("tracer.", "session.", "drain.", "watching."))]
    for name in names:
        monkeypatch.setitem(guard.HOOKS, name, broken)
    done = 0
    for _ in range(3):
        with tracer.step(), tracer.span("x"):
            tracer.log(loss=1)
            done += 1
    tracer.mark("note", "x")
    time.sleep(0.5)
    tracer.stop()
    assert done == 3
    assert {"tracer.step_begin", "tracer.log", "tracer.span_begin"} <= set(guard.account.errors)


def test_functions_that_were_bound_while_it_ran_record_nothing_afterwards(tmp_path: Path) -> None:
    model = torch.nn.Linear(2, 2)
    tracer = start(tmp_path, model=model, sources=["modules", "optimizer", "checkpoint"])
    save, clip, backward = torch.save, torch.nn.utils.clip_grad_norm_, torch.autograd.backward
    tracer.stop()
    assert torch.save is not save
    backward(model(torch.ones(1, 2)).sum())
    clip(model.parameters(), 1.0)
    save(model.state_dict(), tmp_path / "saved.pt")
    assert (tmp_path / "saved.pt").exists()
    assert tracer.recorder.dropped == 0  # they did not even try


class Block(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.mlp = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.GELU())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.mlp(x)


def test_what_is_inspected_is_written_and_wrong_watches_are_answered(tmp_path: Path) -> None:
    model = torch.nn.Sequential(Block(), Block())
    tracer = start(tmp_path, model=model, allow_content=True, sources=["modules", "inspection"])
    acks = tracer.inspect({"what": "residual", "layers": [1], "until": 1}, {"what": "soul"}, 5)  # type: ignore[arg-type]
    assert [ack.ok for ack in acks] == [True, False, False]
    assert acks[1].text.startswith("a watch's what is 'soul'; use one of attention, qkv")
    for number in range(3):
        with tracer.step(number):
            model(torch.ones(2, 3, 4)).sum().backward()
    tracer.stop()
    selected = rows(tmp_path, "frames")  # of one file or two
    assert sorted((row["step"], row["layer"], row["shape"]) for row in selected) == [
        (0, 1, [3, 4]),
        (1, 1, [3, 4]),
    ]
    assert (
        sum(row["text"].startswith("watch residual ended") for row in rows(tmp_path, "marks")) == 1
    )
    assert guard.account.errors == {}


def test_without_the_source_a_watch_is_answered(tmp_path: Path) -> None:
    tracer = start(tmp_path, allow_content=True)
    (ack,) = tracer.inspect({"what": "mlp"})
    assert ack.text == "the source inspection is off; nothing can be captured"
    tracer.stop()


def test_threads_have_their_own_tracks(tmp_path: Path) -> None:
    tracer = start(tmp_path)

    def work() -> None:
        with tracer.span("apart"):
            time.sleep(0.001)

    thread = threading.Thread(target=work, name="loader 3")
    thread.start()
    thread.join()
    tracer.stop()
    (span,) = (row for row in rows(tmp_path, "spans") if row["name"] == "apart")
    assert span["track"] == "loader 3"


def test_a_span_that_is_kept_can_be_entered_again_while_it_is_open() -> None:
    recorder = Recorder()
    span = OwnSpan(recorder, "kept", "host")
    with span, span:
        pass
    inner, outer = (SpanRow(*recorder.spans[at : at + SPAN_FIELDS]) for at in (0, SPAN_FIELDS))
    assert (inner.depth, outer.depth) == (1, 0)
    assert outer.begin_ns <= inner.begin_ns <= inner.end_ns <= outer.end_ns
