"""torchtitan: what its Trainer knows about a step.

>>> import trace_hooks as th
>>> th.torchtitan.install()                        # doctest: +SKIP

Steps are calls of `Trainer.train_step`, with torchtitan's own numbers (the first is 1; a loaded
checkpoint goes on): what follows them, saves and validation, is in none. Each has the tokens of
this rank's replica, and the loss, gradient norm and learning rate that torchtitan logs of it
(`metrics.log_freq`). The spans of torchtitan's structured logger are spans here, whether it writes
them or not, but for those around what has spans of its own. The layout comes from ParallelDims
(job/layout_detection.py), pipeline actions from the source `pipeline`.
Misses: trainers with a loop of their own (torchft, graph_trainer, rl).
Tested with torchtitan 0.3.0.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torchtitan.components.metrics import MetricsProcessor
from torchtitan.observability.structured_logger import log_trace_span
from torchtitan.trainer import Trainer

import trace_hooks
from trace_hooks.integrations.framework_source import FrameworkSource
from trace_hooks.integrations.nested_spans import NestedSpans
from trace_hooks.recording.guard import guarded
from trace_hooks.sources.context import SourceContext

KINDS = {
    "fetching_batch": "data_fetch",
    "eval": "evaluation",
    "optim": "optimizer",
    "checkpoint_save": "checkpoint",
    "gc_collect": "gc",
}
"""Kind of the structured logger's spans; of others `host`."""

LEFT_OUT = ("step", "fwd_bwd")
"""Spans around what has spans of its own: they would only hide what no source has seen."""


def install(folder: str | None = None, **chosen: Any) -> None:
    """Trace torchtitan's Trainer; starts the hooks unless they run already.

    Call it before the Trainer is built. Takes the arguments of trace_hooks.start, and raises
    ValueError as that does.
    """
    tracer = trace_hooks.start(folder, **chosen)
    if not any(isinstance(source, TorchTitan) for source in tracer.sources):
        tracer.install(TorchTitan(tracer.context))


class TorchTitan(FrameworkSource):
    """Steps, metrics and spans, see the module's docstring."""

    name = "torchtitan"

    def __init__(self, context: SourceContext) -> None:
        super().__init__(context)
        self._spans = NestedSpans(self.recorder, KINDS, LEFT_OUT)
        self._num_tokens = 0  # that the rank had seen before the step

    def install(self) -> None:
        """Wrap the methods."""
        self.before(Trainer, "train_step", self._begin)
        self.after(Trainer, "train_step", self._trained)
        self.before(MetricsProcessor, "log", self._logs)
        self.before(log_trace_span, "__enter__", self._span_begins)
        self.before(log_trace_span, "__exit__", self._span_ends)

    @guarded("torchtitan.begin", stays_on=True)
    def _begin(self, args: tuple[Any, ...], kwargs: Any) -> None:
        trainer = args[0]
        self._num_tokens = trainer.ntokens_seen
        self.begin_step(trainer.step)
        self.hold_step()

    @guarded("torchtitan.trained", stays_on=True)
    def _trained(self, result: Any, args: tuple[Any, ...], kwargs: Any) -> None:
        trainer = args[0]
        seen = trainer.ntokens_seen - self._num_tokens  # a part of each sequence, if cp splits them
        self.end_step(tokens=seen * trainer.parallel_dims.cp)

    @guarded("torchtitan.logs", stays_on=True)
    def _logs(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        """`log(self, step, global_avg_loss, global_max_loss, grad_norm, extra_metrics)`."""
        names = ("self", "step", "global_avg_loss", "global_max_loss", "grad_norm", "extra_metrics")
        values = dict(zip(names, args, strict=False)) | dict(kwargs)
        extra = values.get("extra_metrics") or {}
        rates = [rate for name, rate in extra.items() if name.split("/")[0] == "lr"]
        self.steps.suggest(
            {
                "loss": values["global_avg_loss"],
                "grad_norm": values["grad_norm"],
                "lr": max(rates, default=None),
            }
        )

    @guarded("torchtitan.span_begins")
    def _span_begins(self, args: tuple[Any, ...], kwargs: Any) -> None:
        if not torch.compiler.is_compiling():
            self._spans.begin(args[0], args[0].base_name)

    @guarded("torchtitan.span_ends")
    def _span_ends(self, args: tuple[Any, ...], kwargs: Any) -> None:
        if not torch.compiler.is_compiling():
            self._spans.end(args[0])
