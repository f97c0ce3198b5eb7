"""Backward spans of modules, from hooks on the tensors that pass through them.

A module's backward begins when the gradient of its output is complete (pre-hook of the output's
grad_fn) and ends when the gradient of its input is (hook of the input tensor): the engine runs
tensor hooks before pre-hooks of the same node, so one block's end comes before the next one's
begin. Full backward hooks would cost 20 times as much (specs/hooks.md).

Where the input needs no gradient (embeddings, the first block), the end is that of the single
autograd node of a leaf module, otherwise the end of the enclosing span or of the backward pass.
Misses: a second backward pass over the same graph (retain_graph), which is not recorded again.
"""

from __future__ import annotations

import functools
import threading
from typing import Any

import torch

from trace_hooks.guard import disabled, guarded
from trace_hooks.recorder import Mark, Recorder
from trace_hooks.sources.parts import Part

_engine = torch.autograd.Variable._execution_engine
graph_task = torch._C._current_graph_task_id


class _Running(threading.local):
    """Backward spans begun and not ended on this thread, outermost first."""

    def __init__(self) -> None:
        self.spans: list[tuple[ModuleBackward, Mark, int]] = []  # (whose, mark, graph task)
        self.epoch = -1
        self.announced = -1  # graph task at whose end `finish` will be called


class BackwardSpans:
    """Keeps the backward spans of one recorder properly nested."""

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder
        self.epoch = 0
        self._running = _Running()

    def step_begin(self) -> None:
        """Forget what an exception in a backward pass left open."""
        if graph_task() < 0:  # an optimizer inside the backward pass may begin a step
            self.epoch += 1

    def begin(self, whose: ModuleBackward) -> None:
        """Open the span of `whose`."""
        running, task = self._running, graph_task()
        if running.epoch != self.epoch:
            running.spans.clear()
            running.epoch = self.epoch
        if running.announced != task:
            running.announced = task
            _engine.queue_callback(functools.partial(self._finish, task))
        mark = self.recorder.open()
        if running.spans and running.spans[-1][0].part.block is whose.part:
            # block and MLP share an output and the MLP was hooked first: the block goes outside
            inner, outer_mark, inner_task = running.spans[-1]
            running.spans[-1] = (whose, outer_mark, inner_task)
            running.spans.append((inner, mark, inner_task))
        else:
            running.spans.append((whose, mark, task))

    def end(self, whose: ModuleBackward) -> None:
        """Close the span of `whose` and what is still open inside it."""
        spans = self._running.spans
        for index in range(len(spans) - 1, -1, -1):
            if spans[index][0] is whose:
                self._close_from(index)
                return

    @guarded("modules.backward_finish")
    def _finish(self, task: int) -> None:
        running = self._running
        running.announced = -1
        for index, (_, _, begun_in) in enumerate(running.spans):
            if begun_in == task:
                self._close_from(index)
                return

    def _close_from(self, index: int) -> None:
        spans = self._running.spans
        while len(spans) > index:
            whose, mark, _ = spans.pop()
            self.recorder.close(whose.site, mark, whose.microbatch)


class ModuleBackward:
    """The backward to come of one forward call. Holds no tensor, so it keeps no graph alive."""

    __slots__ = ("handle", "microbatch", "part", "seen", "site", "spans")

    def __init__(self, spans: BackwardSpans, part: Part, site: int, microbatch: int) -> None:
        self.spans = spans
        self.part = part
        self.site = site
        self.microbatch = microbatch
        self.seen = False  # begun once, or ended before it began (output is input)
        self.handle: Any = None

    def hook_input(self, tensor: torch.Tensor) -> None:
        """End when the gradient of `tensor` is complete."""
        self.handle = tensor.register_hook(self._input_done)

    def hook_output(self, tensor: torch.Tensor, leaf: bool) -> None:
        """Begin when the gradient of `tensor` is complete; `leaf`: the module has no children."""
        node = tensor.grad_fn
        if node is None:
            self.drop()
            return
        node.register_prehook(self._begin)
        if self.handle is None and leaf and _accumulates(node):
            node.register_hook(self._node_done)

    def drop(self) -> None:
        """There will be no backward: leave nothing on the input."""
        if self.handle is not None:
            self.handle.remove()
            self.handle = None

    @guarded("modules.backward_begin")
    def _begin(self, grad_outputs: Any) -> None:
        if self.seen or "modules.backward_end" in disabled:
            return
        self.seen = True
        self.spans.begin(self)

    @guarded("modules.backward_end")
    def _end(self) -> None:
        self.seen = True
        self.drop()  # the input may outlive this pass: pipeline stages reuse receive buffers
        self.spans.end(self)

    def _input_done(self, grad: Any) -> None:
        self._end()

    _input_done.__torch_unserializable__ = True  # type: ignore[attr-defined] # no warning on pickling

    def _node_done(self, grad_inputs: Any, grad_outputs: Any) -> None:
        self._end()


def _accumulates(node: Any) -> bool:
    return any(type(fn).__name__ == "AccumulateGrad" for fn, _ in node.next_functions)
