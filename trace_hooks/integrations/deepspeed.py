"""DeepSpeed: what its engine knows about a step.

>>> import trace_hooks as th
>>> engine, *_ = deepspeed.initialize(...)                        # doctest: +SKIP
>>> th.deepspeed.watch(engine)                                    # doctest: +SKIP

Works with ZeRO 1 to 3 and with the pipeline engine. Steps have the engine's numbers, `global_steps`
(the first is 0, a loaded checkpoint goes on with its own), and last until the engine is done with
them: with the parameters gathered after the optimizer, and also where an overflow has kept that
from stepping. Each has its loss (mean over the micro-batches), learning rate and gradient norm.
Micro-batches of gradient accumulation and the actions of a pipeline have their numbers; saves and
loads of checkpoints are spans. The layout comes from the engine's groups (job/wrapped_models.py).
Misses: the loss of a script that calls `loss.backward()` instead of `engine.backward(loss)`.
The engine's instance is changed, not its class. Tested with DeepSpeed 0.19.8.
"""

from __future__ import annotations

from typing import Any
from weakref import ref

import torch
from deepspeed.runtime.engine import DeepSpeedEngine
from deepspeed.runtime.pipe.engine import PipelineEngine

import trace_hooks
from trace_hooks.integrations.deepspeed_pipeline import PipelineActions
from trace_hooks.integrations.framework_source import FrameworkSource, named
from trace_hooks.recording.guard import guarded
from trace_hooks.schema import UNKNOWN
from trace_hooks.sources.alive import alive
from trace_hooks.sources.context import SourceContext
from trace_hooks.sources.patching import Patches
from trace_hooks.sources.training.pipeline import Action

_PATCHES = "_trace_hooks_patches"
"""Attribute of an engine with what was replaced in it, which holds the engine."""


def watch(engine: DeepSpeedEngine, folder: str | None = None, **chosen: Any) -> None:
    """Trace an engine; starts the hooks unless they run already.

    `folder` and `chosen`: arguments of trace_hooks.start. A job with several engines has the steps
    that the hooks recognise by themselves. Raises TypeError for what is no engine, and ValueError
    as `start` does.
    """
    if not isinstance(engine, DeepSpeedEngine):
        raise TypeError(
            "trace_hooks.deepspeed.watch takes the engine that deepspeed.initialize returns, not "
            f"{type(engine).__name__}"
        )
    tracer = trace_hooks.start(folder, **chosen)
    watched = [source for source in tracer.sources if isinstance(source, WatchedEngine)]
    if all(source.held() is not engine for source in watched):
        for source in watched:
            source.is_only_one = False
        if not tracer.context.models.roots:
            tracer.watch(engine.module, getattr(engine, "stage_id", None))
        tracer.install(WatchedEngine(tracer.context, engine, is_only_one=not watched))


class WatchedEngine(FrameworkSource):
    """One engine, see the module's docstring. It is held weakly: a job may drop it, and needs the
    memory of its model, while the hooks go on."""

    name = "deepspeed"

    def __init__(self, context: SourceContext, engine: Any, is_only_one: bool) -> None:
        super().__init__(context)
        self.held = ref(engine)
        self.is_only_one = is_only_one
        self._losses: list[torch.Tensor] = []  # of this step's micro-batches
        self._lr: float | None = None
        self._num_steps = -1  # that the engine has made

    @property
    def engine(self) -> Any:
        """Raises RuntimeError where it is gone."""
        return alive(self.held, "the engine")

    def install(self) -> None:
        """Wrap the engine's methods."""
        engine = self.engine
        vars(engine)[_PATCHES] = self._patches
        self._number()
        self.record(engine, "save_checkpoint", named("engine.save_checkpoint", "checkpoint"))
        self.after(engine, "load_checkpoint", self._number)
        if isinstance(engine, PipelineEngine):
            self._patches.replace(
                engine, "_INSTRUCTION_MAP", PipelineActions(self.recorder, self._step).recorded
            )
            self.before(engine, "train_batch", self._begin)
            self.after(engine, "train_batch", self._stepped)
        else:
            self.before(engine, "forward", self._begin_microbatch)
            self.record(engine, "backward", self._backward)
            self.after(engine, "backward", self._passed)
            self.record(engine, "step", self._micro_step)
            self.after(engine, "step", self._stepped)
        self._patches = Patches()  # those of the engine hold it

    def uninstall(self) -> None:
        """Restore the methods, unless the engine is gone."""
        engine = self.held()
        if engine is not None:
            vars(engine).pop(_PATCHES, self._patches).restore()

    @guarded("deepspeed.number", stays_on=True)
    def _number(self, *_call: Any) -> None:
        self._num_steps = self.engine.global_steps
        if self.is_only_one:
            self.steps.renumber(self._num_steps)

    @guarded("deepspeed.begin", stays_on=True)
    def _begin(self, *_call: Any) -> None:
        if self.is_only_one:
            self.begin_step(self.engine.global_steps)

    @guarded("deepspeed.microbatch")
    def _begin_microbatch(self, *_call: Any) -> None:
        engine = self.engine
        if not (engine.module.training and torch.is_grad_enabled()):
            return
        self._begin()
        num = engine.gradient_accumulation_steps()
        if num > 1 and self._counts():
            self.rank_state.microbatch = engine.micro_steps % num

    def _counts(self) -> bool:
        """Whether the engine counts micro-batches: a script may say itself when a step is due."""
        engine = self.engine
        is_managed = getattr(engine, "managed_gradient_accumulation", lambda: True)()
        return is_managed and engine._is_gradient_accumulation_boundary is None

    def _backward(self, loss: Any, *args: Any, **kwargs: Any) -> Action:
        if isinstance(loss, torch.Tensor):
            self._losses.append(loss.detach().clone())
        return Action("engine.backward", "backward", self.rank_state.microbatch, UNKNOWN)

    @guarded("deepspeed.passed")
    def _passed(self, *_call: Any) -> None:
        self.rank_state.microbatch = UNKNOWN

    def _micro_step(self, *args: Any, **kwargs: Any) -> Action | None:
        if self._counts() and not self.engine.is_gradient_accumulation_boundary():
            return None
        return self._step()

    def _step(self, *args: Any, **kwargs: Any) -> Action:
        self.hold_step()
        # now: a scheduler may change it at the end of the step
        self._lr = next(iter(self.engine.get_lr()), None)
        return Action("engine.step", "optimizer", UNKNOWN, UNKNOWN)

    @guarded("deepspeed.stepped", stays_on=True)
    def _stepped(self, loss: Any, *_call: Any) -> None:
        """A micro-batch is done, and with the last one the step; `loss`: of a pipeline's batch."""
        engine = self.engine
        if engine.global_steps == self._num_steps:
            return
        self._num_steps = engine.global_steps
        losses, self._losses = self._losses, []
        if losses:
            loss = torch.stack(losses).float().mean()
        norm = engine.get_global_grad_norm() if engine.was_step_applied() else None
        if self.is_only_one:
            self.end_step(loss=loss, lr=self._lr, grad_norm=norm)
            self.steps.renumber(self._num_steps)
        else:
            self.end_step(is_over=False)
