"""Actions of torch.distributed.pipelining: what a rank does for which micro-batch and stage.

Sees: F, B, I (gradient of the input alone), W (gradient of the weights), the loss on the last stage
and FSDP2's gradient reduction after the last micro-batch, in every schedule, because all of them
end in the same methods of a stage; between the actions the time Python takes to issue a batch of
messages, and to gather and give back a stage's parameters where the schedule does that itself
(kind host: waits inside are the collectives' own spans). While an action runs, the rank's
micro-batch and chunk (the global stage index) are set, and every span inside inherits them. Spans
of some forwards say how much memory they keep (action_memory.py). On the first stage torch leaves I
empty and does the whole backward pass in W.
Misses: the schedule's own loop; waits and messages between the stages, which `collectives` records,
one span a wait.
The package is hooked once the job has imported it: to import it takes a second and 70 MB.
The names are private to torch; where one is missing, the source logs it once and does not record
that action. Tested with torch 2.13.
Costs: two guarded calls an action; see benchmarks/hook_overhead.py.
"""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Callable
from functools import cache, partial
from typing import Any, NamedTuple

from trace_hooks.recording.guard import guarded
from trace_hooks.recording.recorder import Mark, Recorder
from trace_hooks.schema import UNKNOWN
from trace_hooks.sources.base import Source
from trace_hooks.sources.context import SourceContext
from trace_hooks.sources.patching import Patches, around, is_imported
from trace_hooks.sources.training.action_memory import allocated_before, kept

log = logging.getLogger("trace_hooks")


class Action(NamedTuple):
    """What one call of a hooked method does."""

    name: str
    kind: str
    microbatch: int
    chunk: int


def _forward(stage: Any, fwd_chunk_id: int, *args: Any, **kwargs: Any) -> Action:
    return Action("F", "forward", fwd_chunk_id, stage.stage_index)


def _backward(
    stage: Any,
    bwd_chunk_id: int,
    loss: Any = None,
    full_backward: bool = True,
    last_backward: bool = False,
) -> Action | None:
    if not stage.has_backward:
        return None
    return Action("B" if full_backward else "I", "backward", bwd_chunk_id, stage.stage_index)


def _weight(stage: Any, bwd_chunk_id: int, last_backward: bool = False) -> Action | None:
    if not stage.has_backward:
        return None
    return Action("W", "wgrad", bwd_chunk_id, stage.stage_index)


def _reduce(stage: Any, *args: Any, **kwargs: Any) -> Action:
    return Action("reduce_grad", "backward", UNKNOWN, stage.stage_index)


def _loss(
    schedule: Any,
    stage: Any,
    output: Any,
    target_mbs: Any,
    mb_index: int,
    *args: Any,
    **kwargs: Any,
) -> Action | None:
    if not stage.is_last:
        return None
    return Action("loss", "forward", mb_index, stage.stage_index)


STAGE_METHODS: dict[str, Callable[..., Action | None]] = {
    "forward_one_chunk": _forward,
    "backward_one_chunk": _backward,
    "backward_weight_one_chunk": _weight,
    "perform_reduce_grad": _reduce,
}
"""Methods of stage._PipelineStageBase, with the signatures of torch 2.13."""

SCHEDULE_METHODS: dict[str, Callable[..., Action | None]] = {"_maybe_compute_loss": _loss}
"""Methods of schedules._PipelineSchedule."""


def _host(name: str) -> Callable[..., Action]:
    def action(*args: Any, **kwargs: Any) -> Action:
        return Action(name, "host", UNKNOWN, UNKNOWN)

    return action


SCHEDULE_FUNCTIONS: dict[str, Callable[..., Action | None]] = {
    "_batch_p2p": _host("issue messages")
}
"""Functions of the module schedules."""

STAGE = "torch.distributed.pipelining.stage"
SCHEDULES = "torch.distributed.pipelining.schedules"
MODULES = ("torch.distributed.pipelining", STAGE, SCHEDULES)

FULLY_SHARD = "torch.distributed.fsdp._fully_shard._fully_shard"
"""Module of FSDP2."""

FSDP_METHODS: dict[str, Callable[..., Action | None]] = {
    "unshard": _host("unshard"),
    "reshard": _host("reshard"),
}
"""Methods of FSDPModule: schedules with several stages a rank call them between the actions."""

UNSHARD_METHODS: dict[str, Callable[..., Action | None]] = {"wait": _host("unshard wait")}
"""Methods of the handle that an asynchronous unshard returns."""


class _Running(NamedTuple):
    action: Action
    mark: Mark
    outer: tuple[int, int]  # micro-batch and chunk before
    allocated: int  # bytes on the device before; -1 not read


class Pipeline(Source):
    """Pipeline actions, see the module's docstring."""

    name = "pipeline"

    poll_s = 0.2

    def __init__(self, context: SourceContext) -> None:
        super().__init__(context)
        self._patches = Patches()
        self._is_taken = threading.Lock()  # by the thread that wraps: the drain thread looks, too

    def install(self) -> None:
        """Wrap the stage's methods if the job has imported them, else once it has."""
        self._is_taken = threading.Lock()
        self.poll()

    def instrument(self, model: Any, stage: int | None = None) -> None:
        """A job may have imported them just before."""
        self.poll()

    def step_begin(self) -> None:
        """A job may have imported them just before."""
        self.poll()

    def poll(self) -> None:
        """Wrap the methods where the modules that define them are imported by now."""
        if self._is_taken.locked() or not all(map(is_imported, MODULES)):
            return
        if self._is_taken.acquire(blocking=False):
            self._wrap_all(sys.modules[STAGE], sys.modules[SCHEDULES])

    def _wrap_all(self, stage: Any, schedules: Any) -> None:
        self._wrap(getattr(stage, "_PipelineStageBase", None), STAGE_METHODS)
        self._wrap(getattr(schedules, "_PipelineSchedule", None), SCHEDULE_METHODS)
        self._wrap(schedules, SCHEDULE_FUNCTIONS)
        fully_shard = sys.modules.get(FULLY_SHARD)  # pipelining imports it where torch has it
        if fully_shard is not None:
            self._wrap(getattr(fully_shard, "FSDPModule", None), FSDP_METHODS)
            self._wrap(getattr(fully_shard, "_UnshardHandleImpl", None), UNSHARD_METHODS)

    def uninstall(self) -> None:
        """Restore the methods."""
        self._is_taken.acquire(blocking=False)
        self._patches.restore()

    def _wrap(self, owner: Any, methods: dict[str, Callable[..., Action | None]]) -> None:
        for name, action_of in methods.items():
            if not self._patches.replace(owner, name, partial(recorded, self.recorder, action_of)):
                log.warning(
                    "trace_hooks: this torch has no pipelining method %s; it is not recorded", name
                )


def recorded(
    recorder: Recorder,
    action_of: Callable[..., Action | None],
    original: Callable[..., Any],
    source: str = "pipeline",
) -> Callable[..., Any]:
    """Wrapper of a function of a pipeline engine: a span with the action that `action_of` says, of
    its arguments; None records nothing. Spans inside inherit micro-batch and chunk. `source`: whose
    actions are off once one of them fails."""
    begin, end = _guarded_as(source)

    def before(*args: Any, **kwargs: Any) -> _Running | None:
        return None if recorder.is_over else begin(recorder, action_of, args, kwargs)

    def after(running: _Running) -> None:
        end(recorder, running)

    return around(original, before, after, f"{source}.action_end")


def _begin(
    recorder: Recorder,
    action_of: Callable[..., Action | None],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> _Running | None:
    action = action_of(*args, **kwargs)
    if action is None:
        return None
    state = recorder.rank_state
    allocated = allocated_before(action.kind, action.microbatch, state.step)
    outer = state.microbatch, state.chunk
    running = _Running(action, recorder.open(), outer, allocated)
    state.microbatch, state.chunk = action.microbatch, action.chunk
    return running


def _end(recorder: Recorder, running: _Running) -> None:
    action, state = running.action, recorder.rank_state
    state.microbatch, state.chunk = running.outer
    site = recorder.site(action.name, action.kind, chunk=action.chunk)
    recorder.close(site, running.mark, action.microbatch, extra=kept(running.allocated))


@cache
def _guarded_as(source: str) -> tuple[Callable[..., _Running | None], Callable[..., None]]:
    """`_begin` and `_end` under the names of a source."""
    return guarded(f"{source}.action_begin")(_begin), guarded(f"{source}.action_end")(_end)


_guarded_as(Pipeline.name)  # HOOKS has them from the start
