"""Hugging Face transformers: a callback for Trainer, and for the trainers of TRL.

>>> import trace_hooks as th
>>> trainer = Trainer(..., callbacks=[th.hf.Callback()])          # doctest: +SKIP

It numbers steps as the Trainer's own logs do (the first is 1, a resumed job goes on), attaches
loss, gradient norm and learning rate to the steps that log them, and marks epochs, evaluations and
saves. The loss that the Trainer logs is its mean since the last log: with logging_steps=1 that of
the step. Tokens are those of the batches, which the hooks count by themselves.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from transformers import TrainerCallback

from trace_hooks import Tracer
from trace_hooks.integrations import OwnTracer, number_step
from trace_hooks.recording.guard import guarded
from trace_hooks.sources.training.trainer_logs import hugging_face_numbers


class Callback(TrainerCallback):
    """Traces a Trainer; starts the hooks unless they run already.

    `chosen`: arguments of trace_hooks.start. Raises ValueError as that does.
    """

    def __init__(self, folder: str | None = None, **chosen: Any) -> None:
        self._tracer = OwnTracer({"folder": folder, **chosen})
        self._tracer()

    def on_train_begin(self, args: Any, state: Any, control: Any, **more: Any) -> None:
        """Training begins, or resumes at `state.global_step`."""
        _number(self._tracer(), state)

    def on_epoch_begin(self, args: Any, state: Any, control: Any, **more: Any) -> None:
        """An epoch begins."""
        _mark_epoch(self._tracer(), state)

    def on_step_end(self, args: Any, state: Any, control: Any, **more: Any) -> None:
        """A step has ended; what it logs comes once the device has computed it."""
        _end_step(self._tracer(), state, control)

    def on_log(
        self,
        args: Any,
        state: Any,
        control: Any,
        logs: Mapping[str, Any] | None = None,
        **more: Any,
    ) -> None:
        """The Trainer logs numbers, of training or of an evaluation."""
        self._tracer().log(**hugging_face_numbers(logs or {}))

    def on_evaluate(
        self,
        args: Any,
        state: Any,
        control: Any,
        metrics: Mapping[str, Any] | None = None,
        **more: Any,
    ) -> None:
        """An evaluation has ended."""
        _mark_evaluation(self._tracer(), state, metrics or {})

    def on_save(self, args: Any, state: Any, control: Any, **more: Any) -> None:
        """A checkpoint is written."""
        _mark_save(self._tracer(), args, state)


@guarded("hf.number", stays_on=True)
def _number(tracer: Tracer, state: Any) -> None:
    tracer.renumber(state.global_step + 1)


@guarded("hf.epoch", stays_on=True)
def _mark_epoch(tracer: Tracer, state: Any) -> None:
    if state.is_world_process_zero:
        epoch = state.epoch or 0.0  # a fraction where training resumes
        tracer.mark("note", f"epoch {int(epoch + 1e-6)} begins", epoch=epoch)


@guarded("hf.step", stays_on=True)
def _end_step(tracer: Tracer, state: Any, control: Any) -> None:
    number_step(tracer, state.global_step)
    if control.should_log:
        tracer.steps.hold()


@guarded("hf.evaluation", stays_on=True)
def _mark_evaluation(tracer: Tracer, state: Any, metrics: Mapping[str, Any]) -> None:
    if state.is_world_process_zero:
        numbers = {n: float(v) for n, v in metrics.items() if isinstance(v, (int, float))}
        loss = f": loss {numbers['eval_loss']:.4g}" if "eval_loss" in numbers else ""
        tracer.mark("note", f"evaluation after step {state.global_step}{loss}", **numbers)


@guarded("hf.save", stays_on=True)
def _mark_save(tracer: Tracer, args: Any, state: Any) -> None:
    if state.is_world_process_zero:
        folder = f"{args.output_dir}/checkpoint-{state.global_step}"
        tracer.mark("note", f"checkpoint of step {state.global_step} is written", folder=folder)
