"""Captures of kernels in one process: bounds, the job's own profiler, errors."""

from __future__ import annotations

import gzip
import json
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.profiler import ProfilerActivity, profile

from tests.trace_hooks.tiny_models import Tracing, tracing
from trace_hooks.job.identity import Identity, Shared
from trace_hooks.job.process_info import Place
from trace_hooks.recording import guard
from trace_hooks.sources.profiling import kernel_capture, profiled_steps
from trace_hooks.sources.profiling.kernel_capture import KernelCapture


class Job:
    """Steps of a model whose capture is requested."""

    def __init__(self, traced: Tracing) -> None:
        self.traced, self.recorder = traced, traced.recorder
        source = traced.source("kernel_capture")
        assert isinstance(source, KernelCapture)
        self.source = source
        self.model = nn.Linear(8, 8)

    def ask(self, **args: object) -> str:
        command = {"type": "command", "id": "c1", "name": "capture_kernels", "args": args}
        ack = self.traced.live.commands.answer(command)
        assert ack is not None
        assert ack["ok"], ack["text"]
        return str(ack["text"])

    def step(self, number: int) -> None:
        self.traced.rank_state.step = number
        self.source.step_begin()
        self.model(torch.ones(2, 8)).sum().backward()
        self.source.step_end()

    def hand_over(self) -> None:
        while self.source._stopped is not None:
            self.source.poll()

    def texts(self) -> list[str]:
        return [row["text"] for row in self.traced.rows("marks")]


@pytest.fixture
def job() -> Iterator[Job]:
    with tracing("kernel_capture") as traced:
        yield Job(traced)


def test_operators_come_with_steps_tracks_and_nesting(job: Job) -> None:
    assert "from step 4" in job.ask(steps=2, **{"from": 4})
    for number in range(3, 8):
        job.step(number)
    job.hand_over()
    spans = job.traced.spans()
    assert {span.row.step for span in spans} == {4, 5}
    assert {span.mode for span in spans} == {"imported"}
    assert {job.recorder.thread_names[span.row.thread] for span in spans} == {"ops main"}
    outer = next(span for span in spans if span.name == "aten::linear")
    inner = next(span for span in spans if span.name == "aten::addmm")
    assert inner.row.depth > outer.row.depth
    assert outer.row.begin_ns <= inner.row.begin_ns <= inner.row.end_ns <= outer.row.end_ns
    (cost,) = [json.loads(row["args"]) for row in job.traced.rows("marks") if row["args"]]
    assert (cost["first_step"], cost["steps"]) == (4, 2)
    assert cost["step_before_ms"] > 0


def test_without_a_step_the_next_one_is_captured(job: Job) -> None:
    job.traced.rank_state.step = 7
    job.ask(steps=1)
    job.step(8)
    job.hand_over()
    assert {span.row.step for span in job.traced.spans()} == {8}


def test_what_cannot_be_captured_is_refused(job: Job) -> None:
    job.traced.rank_state.step = 7
    with pytest.raises(ValueError, match="in step 7 already"):
        job.source.ask({"steps": 1, "from": 7})
    job.source.ask({"steps": 2, "from": 8})
    job.step(8)
    with pytest.raises(ValueError, match="still busy"):
        job.source.ask({"steps": 1})


def test_a_step_that_never_comes_is_reported(job: Job) -> None:
    job.ask(steps=1, **{"from": 5})
    job.step(6)
    assert job.texts() == ["step 5 did not come, this is step 6: not captured"]
    job.ask(steps=1)


def test_a_capture_ends_in_time(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(profiled_steps, "MAX_S", 0.0)
    job.ask(steps=50, **{"from": 1})
    job.step(1)
    job.step(2)
    job.hand_over()
    assert {span.row.step for span in job.traced.spans()} == {1}


def test_events_beyond_the_bound_are_left_out_and_counted(
    job: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kernel_capture, "MAX_EVENTS", 5)
    monkeypatch.setattr(kernel_capture, "PIECE", 2)
    job.ask(steps=1)
    job.step(0)
    job.hand_over()
    assert 0 < len(job.traced.spans()) <= 5
    assert "later events are left out" in job.texts()[-1]


def test_the_profilers_trace_is_kept_below_the_run(job: Job, tmp_path: Path) -> None:
    shared = Shared("night", 2, 0, "d", 0, 0)
    job.source.place(Identity(shared, Place(3, 8, 3, sure=True), tmp_path))
    job.ask(steps=1, **{"from": 12})
    job.step(12)
    job.hand_over()
    (kept,) = (tmp_path / "kernels").iterdir()
    assert kept.name == "0002-rank-00003-step-00000012.json.gz"
    assert json.loads(gzip.decompress(kept.read_bytes()))["traceEvents"]


def test_a_folder_that_cannot_be_written_costs_the_file_only(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with tracing("kernel_capture", errors=True) as traced:
        job = Job(traced)
        shared = Shared("night", 0, 0, "d", 0, 0)
        job.source.place(Identity(shared, Place(0, 1, 0, sure=True), tmp_path / "file"))
        job.ask(steps=1)
        job.step(0)
        job.hand_over()
        assert job.traced.spans()
        assert guard.account.errors == {"kernel_capture.file": 1}


def test_the_jobs_own_profiler_has_the_right_of_way(job: Job) -> None:
    job.ask(steps=1)
    with profile(activities=[ProfilerActivity.CPU]) as own:
        job.step(0)
    assert any(event.name == "aten::linear" for event in own.events())
    assert "uses torch's profiler itself" in job.texts()[-1]
    job.ask(steps=2)
    job.step(1)
    job.traced.rank_state.step = 2
    job.source.step_begin()
    job.model(torch.ones(2, 8))
    with profile(activities=[ProfilerActivity.CPU]) as own:
        job.model(torch.ones(2, 8))
    job.source.step_end()
    job.hand_over()
    assert any(event.name == "aten::linear" for event in own.events())
    assert {span.row.step for span in job.traced.spans()} == {1, 2}  # of 2 what came before
    assert any("the capture ends early" in text for text in job.texts())
    assert not torch.autograd._profiler_enabled()


def test_a_profiler_that_fails_stops_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(**given: object) -> None:
        raise RuntimeError("CUPTI is not allowed here")

    with tracing("kernel_capture", errors=True) as traced:
        job = Job(traced)
        with monkeypatch.context() as patched:
            patched.setattr(profiled_steps, "profile", fails)
            job.ask(steps=1)
            job.step(0)
        assert guard.account.errors == {"kernel_capture.start": 1}
        job.ask(steps=1)
        job.step(1)
        job.hand_over()
        assert {span.row.step for span in job.traced.spans()} == {1}


def test_the_end_of_training_ends_a_capture() -> None:
    with tracing("kernel_capture") as traced:
        job = Job(traced)
        job.ask(steps=50)
        job.step(0)
    assert {span.row.step for span in traced.spans()} == {0}
    assert not torch.autograd._profiler_enabled()


@pytest.mark.parametrize("is_being_written", [False, True])
def test_the_end_of_training_does_not_wait_for_a_disk_that_hangs(
    job: Job, monkeypatch: pytest.MonkeyPatch, is_being_written: bool
) -> None:
    hangs, works_again = threading.Event(), threading.Event()

    def write(capture: object) -> None:
        hangs.set()
        works_again.wait(60)

    monkeypatch.setattr(job.source, "_write", write)
    job.ask(steps=1)
    job.step(0)
    drain = threading.Thread(target=job.source.poll)
    if is_being_written:
        drain.start()
        assert hangs.wait(60)
    end = threading.Thread(target=job.source.uninstall)
    end.start()
    end.join(10)
    has_ended = not end.is_alive()
    works_again.set()
    end.join()
    if is_being_written:
        drain.join()
    assert has_ended
    job.source.finish()
    assert {span.row.step for span in job.traced.spans()} == {0}
