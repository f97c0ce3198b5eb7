"""Megatron-core, and training loops made with it such as Megatron-LM's.

>>> import trace_hooks as th
>>> th.megatron.install()                          # doctest: +SKIP

Records each forward and backward of Megatron's schedules with its micro-batch and, in a pipeline,
the stage, counted over all virtual stages. A step lasts until Megatron's optimizer is done with it;
under Megatron-LM it has the number of its log (`curr_iteration` + 1), in other loops the hooks
count from 0. Each step has its loss on the ranks of the last stage (mean over the micro-batches, as
the loss function returns it), learning rate, gradient norm, and tokens where all sequences are
equally long. Megatron's timers are spans, but for those around what has spans of its own. The
layout comes from parallel_state (job/layout_detection.py), tokens by expert from the source
`experts`. Misses: schedules that join the passes of two micro-batches (`combined_1f1b`), and losses
that the loss function returns under a name without "loss".
Tested with megatron-core 0.16.1, not with Megatron-LM itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import torch
from megatron.core import parallel_state
from megatron.core.optimizer.optimizer import MegatronOptimizer
from megatron.core.pipeline_parallel import schedules
from megatron.core.timers import Timer

import trace_hooks
from trace_hooks.integrations.framework_source import FrameworkSource
from trace_hooks.integrations.megatron_timers import TimerSpans
from trace_hooks.integrations.megatron_values import is_capturing, iteration, mean_loss
from trace_hooks.recording.clock import now
from trace_hooks.recording.guard import guarded
from trace_hooks.schema import UNKNOWN
from trace_hooks.sources.context import SourceContext
from trace_hooks.sources.training.pipeline import Action

SCHEDULES = (
    "forward_backward_no_pipelining",
    "forward_backward_pipelining_without_interleaving",
    "forward_backward_pipelining_with_interleaving",
)
"""Functions of the module schedules; get_forward_backward_func returns one of them."""


def install(folder: str | None = None, **chosen: Any) -> None:
    """Trace Megatron's schedules; starts the hooks unless they run already.

    Takes the arguments of trace_hooks.start, and raises ValueError as that does.
    """
    tracer = trace_hooks.start(folder, **chosen)
    if not any(isinstance(source, Megatron) for source in tracer.sources):
        tracer.install(Megatron(tracer.context))


class Megatron(FrameworkSource):
    """Schedules, optimizers and timers, see the module's docstring."""

    name = "megatron"

    def __init__(self, context: SourceContext) -> None:
        super().__init__(context)
        self._place = (UNKNOWN, UNKNOWN)  # micro-batch and stage of the last forward
        self._places: dict[int, tuple[int, int]] = {}  # by id of what a forward returned
        self._num_microbatches = 0
        self._lr: float | None = None

    def install(self) -> None:
        """Wrap the functions; schedules look them up at each call."""
        self.record(schedules, "forward_step", self._forward)
        self.after(schedules, "forward_step", self._forwarded)
        self.record(schedules, "backward_step", self._backward)
        for name in SCHEDULES:
            self.before(schedules, name, self._begin)
            self.after(schedules, name, self._passed)
        for kind in _with_own_step(MegatronOptimizer):
            self.record(kind, "step", self._step)
            self.after(kind, "step", self._stepped)
        timers = TimerSpans(self.recorder)
        self.after(Timer, "start", timers.started)
        self.before(Timer, "stop", timers.stops)

    @guarded("megatron.begin", stays_on=True)
    def _begin(self, args: Any, kwargs: Mapping[str, Any]) -> None:
        """A schedule begins: the passes of a step, or an evaluation."""
        self._places.clear()
        self._num_microbatches = kwargs["num_microbatches"]
        if kwargs.get("forward_only"):
            return
        number = iteration()
        if number is None:
            self._auto.activity(now())
        else:
            self.begin_step(number + 1)

    def _forward(
        self,
        *args: Any,
        current_microbatch: int = UNKNOWN,
        vp_stage: int | None = None,
        **more: Any,
    ) -> Action | None:
        if not torch.is_grad_enabled():
            return None
        num_stages = parallel_state.get_pipeline_model_parallel_world_size()
        rank = parallel_state.get_pipeline_model_parallel_rank()
        stage = (vp_stage or 0) * num_stages + rank if num_stages > 1 else UNKNOWN
        is_numbered = num_stages > 1 or self._num_microbatches > 1
        self._place = (current_microbatch if is_numbered else UNKNOWN, stage)
        return Action("F", "forward", *self._place)

    @guarded("megatron.forwarded")
    def _forwarded(self, result: Any, args: Any, kwargs: Any) -> None:
        if torch.is_grad_enabled():
            self._places[_first_id(result[0])] = self._place

    def _backward(self, input_tensor: Any, output_tensor: Any, *args: Any, **more: Any) -> Action:
        place = self._places.pop(_first_id(output_tensor), (UNKNOWN, UNKNOWN))
        return Action("B", "backward", *place)

    @guarded("megatron.passed", stays_on=True)
    def _passed(self, logged: Any, args: Any, kwargs: Mapping[str, Any]) -> None:
        """All passes of a step are done; `logged`: what the loss function returned for each."""
        if kwargs.get("forward_only") or is_capturing():
            return
        config = (model[0] if isinstance(model := kwargs["model"], list) else model).config
        tokens = kwargs["micro_batch_size"] * kwargs["seq_length"] * kwargs["num_microbatches"]
        is_known = not getattr(config, "variable_seq_lengths", False)
        self.steps.suggest({"loss": mean_loss(logged), "tokens": tokens if is_known else None})

    def _step(self, optimizer: Any, *args: Any, **more: Any) -> Action:
        self.hold_step()
        self._lr = max((g["lr"] for g in optimizer.param_groups if "lr" in g), default=None)
        return Action("optimizer step", "optimizer", UNKNOWN, UNKNOWN)

    @guarded("megatron.stepped", stays_on=True)
    def _stepped(self, result: Any, args: Any, kwargs: Any) -> None:
        self.end_step(lr=self._lr, grad_norm=result[1])


def _first_id(output: Any) -> int:
    return id(output[0] if isinstance(output, list) else output)


def _with_own_step(kind: Any) -> Iterator[Any]:
    if "step" in vars(kind):
        yield kind
    for below in kind.__subclasses__():
        yield from _with_own_step(below)
