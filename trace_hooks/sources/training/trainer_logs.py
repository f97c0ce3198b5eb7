"""Numbers that the trainers of frameworks log by themselves: loss, gradient norm, learning rate.

Sees: what transformers' Trainer (and TRL's, which derive from it) and Lightning's Trainer log, in a
script that is not changed. Misses: metrics with other names than those below, which say nothing
certain; Lightning's where a Trainer has no logger.
Costs: one guarded call each time a trainer logs, and one an optimizer step with transformers.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Mapping
from typing import Any

from trace_hooks.recording.guard import guarded
from trace_hooks.sources.base import Source
from trace_hooks.sources.context import SourceContext
from trace_hooks.sources.patching import Patches, is_imported

HUGGING_FACE = "transformers.trainer_callback"
LIGHTNING = (
    "lightning.pytorch.trainer.connectors.logger_connector.logger_connector",
    "pytorch_lightning.trainer.connectors.logger_connector.logger_connector",
)

NAMES = {
    "loss": ("loss", "train_loss", "train/loss", "training_loss", "loss_step", "train_loss_step"),
    "grad_norm": ("grad_norm", "train/grad_norm"),
    "lr": ("lr", "learning_rate", "train/lr", "train/learning_rate"),
}
"""Names under which scripts commonly log a number of the step."""


def hugging_face_numbers(logs: Mapping[str, Any]) -> dict[str, Any]:
    """What `log` of a tracer takes, of what transformers' Trainer logs.

    Its `train_loss` is the mean over the whole training, and is left out.
    """
    names = {"loss": "loss", "grad_norm": "grad_norm", "lr": "learning_rate"}
    return {ours: logs[theirs] for ours, theirs in names.items() if theirs in logs}


def logged_numbers(metrics: Mapping[str, Any]) -> dict[str, Any]:
    """What `log` of a tracer takes, of metrics that a script named itself."""
    found = {}
    for ours, names in NAMES.items():
        value = next((metrics[name] for name in names if name in metrics), None)
        if value is not None:
            found[ours] = value
    return found


class TrainerLogs(Source):
    """What trainers log, see the module's docstring."""

    name = "trainer_logs"

    def __init__(self, context: SourceContext) -> None:
        super().__init__(context)
        self._patches = Patches()
        self._wrapped: set[str] = set()

    def install(self) -> None:
        """Wrap the trainers that are imported."""
        self.poll()

    def uninstall(self) -> None:
        """Restore their functions."""
        self._patches.restore()
        self._wrapped.clear()

    def step_begin(self) -> None:
        """A job may have imported its trainer just before."""
        self.poll()

    def poll(self) -> None:
        """Wrap trainers once they are imported."""
        if self._is_new(HUGGING_FACE):
            handler = sys.modules[HUGGING_FACE].CallbackHandler
            self._patches.replace(handler, "on_step_end", self._with_step_end)
            self._patches.replace(handler, "on_log", self._with_log)
        for module in LIGHTNING:
            if self._is_new(module):
                connector = sys.modules[module]._LoggerConnector
                self._patches.replace(connector, "log_metrics", self._with_metrics)

    def _is_new(self, module: str) -> bool:
        if module in self._wrapped or not is_imported(module):
            return False
        self._wrapped.add(module)
        return True

    def _with_step_end(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def on_step_end(*args: Any, **kwargs: Any) -> Any:
            control = original(*args, **kwargs)
            self._step_ended(control)
            return control

        return on_step_end

    def _with_log(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def on_log(*args: Any, **kwargs: Any) -> Any:
            self._hugging_face_logs(kwargs.get("logs", args[-1]))
            return original(*args, **kwargs)

        return on_log

    def _with_metrics(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def log_metrics(connector: Any, *args: Any, **kwargs: Any) -> Any:
            self._lightning_logs(connector, kwargs.get("metrics", args[0] if args else {}))
            return original(connector, *args, **kwargs)

        return log_metrics

    @guarded("trainer_logs.step_ended")
    def _step_ended(self, control: Any) -> None:
        if control.should_log:
            self.context.steps.hold()

    @guarded("trainer_logs.hugging_face", stays_on=True)
    def _hugging_face_logs(self, logs: Mapping[str, Any]) -> None:
        self.context.steps.suggest(hugging_face_numbers(logs))

    @guarded("trainer_logs.lightning", stays_on=True)
    def _lightning_logs(self, connector: Any, metrics: Mapping[str, Any]) -> None:
        is_epoch = connector._first_loop_iter is None  # then these are means over it
        if connector.trainer.training and not is_epoch:
            self.context.steps.suggest(logged_numbers(metrics))
