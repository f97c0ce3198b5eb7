"""Losses that trainers log by themselves, with stand-ins of the shape of their functions.

The trainers themselves run in `make test-frameworks`.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from trace_hooks.recording.recorder import Recorder
from trace_hooks.recording.step_counter import StepCounter
from trace_hooks.sources.context import SourceContext
from trace_hooks.sources.training import trainer_logs
from trace_hooks.sources.training.trainer_logs import TrainerLogs


class CallbackHandler:
    def on_step_end(self, args: Any, state: Any, control: Any) -> Any:
        return control

    def on_log(self, args: Any, state: Any, control: Any, logs: Any, **kwargs: Any) -> Any:
        return control


class LoggerConnector:
    def __init__(self, training: bool, at_end: bool) -> None:
        self.trainer = SimpleNamespace(training=training)
        self._first_loop_iter = None if at_end else True

    def log_metrics(self, metrics: Any, step: int | None = None) -> tuple[Any, int | None]:
        return metrics, step


def module(name: str, **content: Any) -> ModuleType:
    made = ModuleType(name)
    made.__spec__ = SimpleNamespace(name=name)  # type: ignore[assignment]
    made.__dict__.update(content)
    return made


@pytest.fixture
def recorder() -> Recorder:
    return Recorder()


@pytest.fixture
def steps(recorder: Recorder) -> StepCounter:
    return StepCounter(recorder, lambda: None, lambda: None)


@pytest.fixture
def source(
    recorder: Recorder, steps: StepCounter, monkeypatch: pytest.MonkeyPatch
) -> Iterator[TrainerLogs]:
    source = TrainerLogs(SourceContext(recorder, steps))
    source.install()
    hugging_face, lightning = trainer_logs.HUGGING_FACE, trainer_logs.LIGHTNING[0]
    monkeypatch.setitem(
        sys.modules, hugging_face, module(hugging_face, CallbackHandler=CallbackHandler)
    )
    monkeypatch.setitem(sys.modules, lightning, module(lightning, _LoggerConnector=LoggerConnector))
    source.step_begin()  # the job has imported them since
    yield source
    source.uninstall()


def logged(recorder: Recorder, steps: StepCounter) -> list[dict[str, Any]]:
    steps.publish_last()
    names = ("step", "loss", "grad_norm", "lr")
    rows = [row for table, row in recorder.rows if table == "steps"]
    return [{name: row[name] for name in names if row.get(name) is not None} for row in rows]


def test_a_trainer_of_hugging_face_logs_to_the_step_that_has_just_ended(
    recorder: Recorder, steps: StepCounter, source: TrainerLogs
) -> None:
    handler, control = CallbackHandler(), SimpleNamespace(should_log=True)
    steps.begin()
    steps.end()
    assert handler.on_step_end(None, None, control) is control
    logs = {"loss": 2.5, "grad_norm": 1.5, "learning_rate": 0.1, "epoch": 0.5}
    assert handler.on_log(None, None, control, logs) is control
    assert handler.on_log(None, None, control, logs=logs) is control
    steps.begin()
    steps.end()
    handler.on_log(None, None, control, {"eval_loss": 9.0})
    handler.on_log(None, None, control, {"train_runtime": 1.0, "train_loss": 9.0})
    assert logged(recorder, steps) == [
        {"step": 0, "loss": 2.5, "grad_norm": 1.5, "lr": 0.1},
        {"step": 1},
    ]


def test_a_trainer_of_lightning_logs_steps_and_neither_epochs_nor_validation(
    recorder: Recorder, steps: StepCounter, source: TrainerLogs
) -> None:
    steps.begin()
    steps.end()
    metrics = {"train_loss": 2.5, "train_loss_epoch": 7.0}
    assert LoggerConnector(True, False).log_metrics(metrics, step=4) == (metrics, 4)
    LoggerConnector(True, True).log_metrics({"train_loss": 8.0})
    LoggerConnector(False, False).log_metrics(metrics={"loss": 9.0})
    assert logged(recorder, steps) == [{"step": 0, "loss": 2.5}]


def test_what_the_job_logs_itself_counts(
    recorder: Recorder, steps: StepCounter, source: TrainerLogs
) -> None:
    steps.begin()
    steps.log({"loss": 1.0})
    steps.end()
    LoggerConnector(True, False).log_metrics({"loss": 2.0, "lr": 0.1})
    assert logged(recorder, steps) == [{"step": 0, "loss": 1.0, "lr": 0.1}]


def test_uninstalling_restores_the_trainers(source: TrainerLogs) -> None:
    assert hasattr(CallbackHandler.on_log, "__wrapped__")
    source.uninstall()
    assert not hasattr(CallbackHandler.on_log, "__wrapped__")
    assert not hasattr(LoggerConnector.log_metrics, "__wrapped__")


def test_logs_of_another_shape_leave_the_trainer_alone(
    recorder: Recorder, steps: StepCounter, source: TrainerLogs
) -> None:
    steps.begin()
    steps.end()
    assert CallbackHandler().on_log(None, None, "control", None) == "control"
    assert LoggerConnector(True, False).log_metrics(None) == (None, None)
    assert logged(recorder, steps) == [{"step": 0}]
