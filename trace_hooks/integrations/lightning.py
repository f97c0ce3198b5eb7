"""Lightning: a callback for its Trainer.

>>> import trace_hooks as th
>>> trainer = Trainer(..., callbacks=[th.lightning.Callback()])          # doctest: +SKIP

It numbers steps as Lightning's loggers do (the first is 0, a resumed job goes on), attaches to each
the loss that training_step returned and its learning rate, and records validations as spans. The
hooks start when a rank sets up, so that every rank that Lightning starts is traced. Lightning's
DeviceMesh (ModelParallelStrategy) is found by the hooks themselves.
"""

from __future__ import annotations

import sys
from contextlib import AbstractContextManager
from importlib import import_module
from typing import Any

from trace_hooks import Tracer
from trace_hooks.integrations import OwnTracer, number_step
from trace_hooks.recording.guard import guarded


def _callback_class() -> Any:
    """Of the package that the script uses: lightning, or the same as pytorch_lightning."""
    of_script = "pytorch_lightning" in sys.modules and "lightning.pytorch" not in sys.modules
    package = "pytorch_lightning" if of_script else "lightning.pytorch"
    return import_module(f"{package}.callbacks").Callback


class Callback(_callback_class()):  # type: ignore[misc]
    """Traces a Trainer; starts the hooks unless they run already.

    `chosen`: arguments of trace_hooks.start, whose ValueError `setup` raises.
    """

    def __init__(self, folder: str | None = None, **chosen: Any) -> None:
        self._tracer = OwnTracer({"folder": folder, **chosen})
        self._loss: Any = None  # sum over micro-batches, of which Lightning has divided each
        self._num_losses = 0
        self._validation: AbstractContextManager[None] | None = None
        self._awaits_batch = False  # the first one of a training
        self._epoch_is_marked = False

    def setup(self, trainer: Any, pl_module: Any, stage: str) -> None:
        """A rank begins to fit, validate, test or predict."""
        self._tracer()

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        """Training begins, or resumes."""
        self._awaits_batch, self._epoch_is_marked = True, False
        _number(self._tracer(), trainer)

    def on_train_epoch_start(self, trainer: Any, pl_module: Any) -> None:
        """An epoch begins."""
        self._epoch_is_marked = True
        _mark_epoch(self._tracer(), trainer)

    def on_train_batch_start(
        self, trainer: Any, pl_module: Any, batch: Any, batch_idx: int
    ) -> None:
        """A micro-batch begins. A checkpoint saved in training may lack the step that has just
        ended; the training that resumes from it counts that step after its on_train_start.
        """
        if self._awaits_batch:
            self._awaits_batch = False
            _number(self._tracer(), trainer)
            if not self._epoch_is_marked:
                _mark_skipped_epoch(self._tracer(), trainer)

    def on_before_optimizer_step(self, trainer: Any, pl_module: Any, optimizer: Any) -> None:
        """The optimizer is about to step, with this learning rate."""
        _log_rate(self._tracer(), optimizer)

    def on_train_batch_end(
        self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        """A micro-batch has ended, and with the last one of them a step."""
        _end_batch(self, self._tracer(), trainer, outputs)

    def on_validation_start(self, trainer: Any, pl_module: Any) -> None:
        """Validation begins."""
        self._validation = self._tracer().span("validation", kind="evaluation")
        self._validation.__enter__()

    def on_validation_end(self, trainer: Any, pl_module: Any) -> None:
        """Validation has ended."""
        self._end_validation()

    def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:
        """The Trainer gives up; the process may train again."""
        self._end_validation()

    def _end_validation(self) -> None:
        if self._validation is not None:
            self._validation.__exit__(None, None, None)
            self._validation = None

    def add_loss(self, loss: Any) -> None:
        """Add the loss of a micro-batch."""
        self._loss = loss if self._loss is None else self._loss + loss
        self._num_losses += 1

    def take_loss(self, accumulated: int) -> Any:
        """Mean loss of the micro-batches since the last call; None without any.

        `accumulated`: the number by which Lightning has divided each of them.
        """
        loss, count = self._loss, self._num_losses
        self._loss, self._num_losses = None, 0
        return loss if loss is None or count == accumulated else loss * (accumulated / count)


@guarded("lightning.number", stays_on=True)
def _number(tracer: Tracer, trainer: Any) -> None:
    tracer.renumber(trainer.fit_loop.epoch_loop._batches_that_stepped)


@guarded("lightning.epoch", stays_on=True)
def _mark_epoch(tracer: Tracer, trainer: Any) -> None:
    if trainer.is_global_zero:
        epoch = trainer.current_epoch
        tracer.mark("note", f"epoch {epoch} begins", epoch=epoch)


@guarded("lightning.skipped_epoch", stays_on=True)
def _mark_skipped_epoch(tracer: Tracer, trainer: Any) -> None:
    """Lightning calls no on_train_epoch_start where the checkpoint was saved at the last
    micro-batch of the epoch before. Resumed within an epoch, no epoch begins.
    """
    if trainer.fit_loop.epoch_loop.batch_idx == 0:
        _mark_epoch(tracer, trainer)


@guarded("lightning.rate", stays_on=True)
def _log_rate(tracer: Tracer, optimizer: Any) -> None:
    tracer.log(lr=optimizer.param_groups[0]["lr"])


@guarded("lightning.batch", stays_on=True)
def _end_batch(callback: Callback, tracer: Tracer, trainer: Any, outputs: Any) -> None:
    loss = outputs.get("loss") if isinstance(outputs, dict) else outputs
    if loss is not None:
        callback.add_loss(loss.detach())
    loop = trainer.fit_loop
    if not loop._should_accumulate():
        tracer.log(loss=callback.take_loss(trainer.accumulate_grad_batches))
        number_step(tracer, loop.epoch_loop._batches_that_stepped)
