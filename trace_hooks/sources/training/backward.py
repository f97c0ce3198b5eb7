"""Backward spans of modules, from hooks on the tensors that pass through them.

A module's backward begins when the gradient of its output is complete and ends when the gradient of
its input is. A hook on the tensor sees both; each tensor has at most one: where one block's output
is the next one's input, it ends the one span and begins the other. Full backward hooks of torch
cost several times as much.

Where the input needs no gradient (embeddings, the first block), the end is that of the single
autograd node of a leaf module, otherwise the end of the enclosing span or of the backward pass.
Misses: a second backward pass over the same graph (retain_graph), which is not recorded again.
"""

from __future__ import annotations

import functools
import threading
from collections import OrderedDict
from typing import Any

import torch

from trace_hooks.recording.guard import disabled, guarded
from trace_hooks.recording.recorder import Mark, Recorder
from trace_hooks.sources.training.module_parts import Part

_engine = torch.autograd.Variable._execution_engine
graph_task = torch._C._current_graph_task_id


MOST_ENDS = 1_000
"""Forwards of one tensor that wait for its gradient: a parameter may get none for a long time."""


class _Running:
    """Backward spans begun and not ended on one thread, outermost first."""

    __slots__ = ("announced", "epoch", "spans")

    def __init__(self) -> None:
        self.spans: list[tuple[ModuleBackward, Mark, int]] = []  # (whose, mark, graph task)
        self.epoch = -1
        self.announced = -1  # graph task at whose end `finish` will be called


class _Threads(threading.local):
    def __init__(self) -> None:
        self.running = _Running()


class BackwardSpans:
    """Keeps the backward spans of one recorder properly nested."""

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder
        self.epoch = 0
        self._threads = _Threads()

    def step_begin(self) -> None:
        """Forget spans that an exception in a backward pass left open."""
        if graph_task() < 0:  # an optimizer inside the backward pass may begin a step
            self.epoch += 1

    def border(self, tensor: torch.Tensor) -> Border:
        """The hook of a tensor that requires a gradient, registered now if it has none yet."""
        node = tensor.grad_fn
        if node is None:  # it may outlive this pass: pipeline stages reuse receive buffers
            return self._border_of_leaf(tensor)
        hooks: Any = tensor._backward_hooks
        if hooks is None:  # what Tensor.register_hook does, without a handle to remove the hook
            tensor._backward_hooks = hooks = OrderedDict()
            node._register_hook_dict(tensor)
        known: Border | None = hooks.get(self)
        if known is None:
            known = hooks[self] = Border()
        return known

    def _border_of_leaf(self, leaf: torch.Tensor) -> Border:
        """One until a backward pass gets there: an evaluation with gradients has none."""
        for hook in (leaf._backward_hooks or {}).values():
            if type(hook) is Border and hook.spans is self:
                return hook
        border = Border()
        border.spans = self
        border.handle = leaf.register_hook(border)
        return border

    def begin(self, whose: ModuleBackward) -> None:
        """Open the span of `whose`."""
        running, task = self._threads.running, graph_task()
        spans = running.spans
        if running.epoch != self.epoch:
            spans.clear()
            running.epoch = self.epoch
        if running.announced != task:
            running.announced = task
            _engine.queue_callback(functools.partial(self.finish, task))
        mark = self.recorder.open()
        if spans and spans[-1][0].part.block is whose.part:
            # block and MLP share an output and the MLP began first: put the block outside
            inner, outer_mark, inner_task = spans[-1]
            spans[-1] = (whose, outer_mark, inner_task)
            spans.append((inner, mark, inner_task))
        else:
            spans.append((whose, mark, task))

    def end(self, whose: ModuleBackward) -> None:
        """Close the span of `whose` and those still open inside it."""
        spans = self._threads.running.spans
        for index in range(len(spans) - 1, -1, -1):
            if spans[index][0] is whose:
                self._close_from(index)
                return

    @guarded("modules.backward_finish")
    def finish(self, task: int) -> None:
        """Close the spans of a backward pass that are still open: its gradients are computed."""
        running = self._threads.running
        running.announced = -1
        for index, (_, _, begun_in) in enumerate(running.spans):
            if begun_in == task:
                self._close_from(index)
                return

    def _close_from(self, index: int) -> None:
        spans = self._threads.running.spans
        while len(spans) > index:
            whose, mark, _ = spans.pop()
            self.recorder.close(whose.site, mark, whose.microbatch)


class Border:
    """Hook of one tensor: its gradient ends the modules it went into, begins those it came from.

    It empties itself, so that nothing is recorded twice.
    """

    __slots__ = ("begins", "ends", "handle", "spans")
    __torch_unserializable__ = True  # no warning when the tensor is pickled

    def __init__(self) -> None:
        self.ends: tuple[ModuleBackward, ...] = ()
        self.begins: tuple[ModuleBackward, ...] = ()
        self.handle: Any = None  # of a tensor that outlives the graph
        self.spans: BackwardSpans | None = None  # of the same

    def __call__(self, grad: Any) -> None:
        """The gradient of the tensor is complete."""
        ends, begins = self.ends, self.begins
        self.ends = self.begins = ()
        if self.handle is not None:
            self.handle.remove()
        for backward in ends:
            backward.end()
        for backward in begins:
            backward.begin()

    def drop(self, backward: ModuleBackward) -> None:
        """Remove a module without a backward from the hook of its input."""
        self.ends = tuple(other for other in self.ends if other is not backward)
        if self.handle is not None and not self.ends:
            self.handle.remove()


class ModuleBackward:
    """The later backward of one forward call. Holds no tensor, so it keeps no graph alive."""

    __slots__ = ("microbatch", "part", "seen", "site", "spans")

    def __init__(self, spans: BackwardSpans, part: Part, site: int, microbatch: int) -> None:
        self.spans = spans
        self.part = part
        self.site = site
        self.microbatch = microbatch
        self.seen = False  # begun once, or ended before it began (output is input)

    def end_at_input(self, tensor: torch.Tensor) -> Border:
        """End when the gradient of `tensor` is complete; returns that tensor's hook."""
        border = self.spans.border(tensor)
        border.ends = (*border.ends[1 - MOST_ENDS :], self)
        return border

    def begin_at_output(self, tensor: torch.Tensor, ends_at_node: bool) -> bool:
        """Begin when the gradient of `tensor` is complete; False where no hook will see it.

        `ends_at_node`: end with the tensor's own autograd node, if it makes parameters' gradients.
        """
        node = tensor.grad_fn
        if node is None:
            return False
        self.spans.border(tensor).begins += (self,)
        if ends_at_node and _accumulates(node):
            node.register_hook(self._node_done)
        return True

    @guarded("modules.backward_begin")
    def begin(self) -> None:
        """The gradient of the output is complete."""
        if self.seen or "modules.backward_end" in disabled:
            return
        self.seen = True
        self.spans.begin(self)

    @guarded("modules.backward_end")
    def end(self) -> None:
        """The gradient of the input is complete."""
        self.seen = True
        self.spans.end(self)

    def _node_done(self, grad_inputs: Any, grad_outputs: Any) -> None:
        self.end()


def _accumulates(node: Any) -> bool:
    return any(type(fn).__name__ == "AccumulateGrad" for fn, _ in node.next_functions)
