"""The hook of one router: keeps what it chooses."""

from __future__ import annotations

from typing import Any, Protocol

import torch
from torch import Tensor

from trace_hooks.recording.guard import guarded
from trace_hooks.recording.rank_state import RankState
from trace_hooks.schema import UNKNOWN
from trace_hooks.sources.experts.loads import Call
from trace_hooks.sources.experts.routers import Router
from trace_hooks.sources.tensors.tensor_names import NO_LAYER
from trace_hooks.sources.tensors.tensor_samples import is_captured
from trace_hooks.sources.training.backward import graph_task
from trace_hooks.sources.training.modules import Detachable

MAX_KEPT = 1 << 20
"""Most values of choices that are kept until a step ends; more of them are counted at once."""

is_compiling = torch.compiler.is_compiling
is_grad_enabled = torch.is_grad_enabled


class Keeper(Protocol):
    """What follows routers."""

    rank_state: RankState
    kept: list[Call]
    num_kept: int
    """Values of the choices among them."""

    def locate(self, calls: RouterCalls) -> None:
        """Find path, stage and layer of a router that is called for the first time."""

    def count(self) -> None:
        """Count what is kept."""


class RouterCalls:
    """Follows one router. `stage`: of its model, None: the running chunk's."""

    def __init__(self, keeper: Keeper, router: Router, path: str, stage: int | None) -> None:
        self.keeper = keeper
        self.router = router
        self.module = router.module
        self.kind = router.num_experts, router.top_k
        self.path = path
        self.stage = stage
        self.chunk = UNKNOWN
        self.layer = NO_LAYER
        self.is_located = False
        self.has_begun = False  # in this step, with gradients
        self.is_unreadable = False
        self.handle: Any = None

    def hook(self) -> None:
        """Follow the router from now on, before what tensor parallelism makes of its output."""
        module = self.router.module
        if self.router.at_input:
            self.handle = module.register_forward_pre_hook(_Before(self), prepend=True)
        else:
            self.handle = module.register_forward_hook(_After(self), prepend=True)

    @guarded("experts.routed", stays_on=True)
    def routed(self, value: Any) -> None:
        """The router returned `value`, or was called with it."""
        if graph_task() >= 0:  # recomputed
            if self.has_begun:
                return
        elif not is_grad_enabled() or not self.module.training:
            return
        else:
            self.has_begun = True
        keeper, router = self.keeper, self.router
        state = keeper.rank_state
        if state.prompting_thread or self.is_unreadable:
            return
        self.is_unreadable = True  # where one of the next lines raises; other routers go on
        chosen = router.chosen(value)
        stream = aux_loss = None
        if chosen.is_cuda:
            if is_captured(chosen):
                return
            stream = torch.cuda.current_stream(chosen.device)
        if chosen.requires_grad:
            chosen = chosen.detach()
        if router.aux_loss is not None:
            aux_loss = own_values(router.aux_loss(value))
        if not self.is_located:
            check(router, chosen)
            self.is_located = True
            keeper.locate(self)
        self.is_unreadable = False
        self.chunk = state.chunk if self.stage is None else self.stage
        keeper.kept.append((self, state.microbatch, chosen, chosen._version, stream, aux_loss))
        keeper.num_kept += chosen.numel()
        if keeper.num_kept > MAX_KEPT:
            keeper.count()


def check(router: Router, chosen: Tensor) -> None:
    """Raise ValueError where choices are none of what `Router.chosen` returns."""
    is_float, is_map = chosen.is_floating_point(), chosen.dtype == torch.bool
    num_experts, shape = router.num_experts, tuple(chosen.shape)
    if (is_float or is_map or chosen.dim() == 1) and shape[-1:] != (num_experts,):
        raise ValueError(f"a router of {num_experts} experts returns choices of shape {shape}")
    if is_float and not 1 <= router.top_k <= num_experts:
        raise ValueError(f"a router returns scores; say with top_k how many of {num_experts} count")


def own_values(tensor: Any) -> Tensor:
    """This rank's part of a tensor, without a graph."""
    if hasattr(tensor, "to_local"):
        tensor = tensor.to_local()
    values: Tensor = tensor.detach() if tensor.requires_grad else tensor
    return values


class _Before(Detachable):
    def __init__(self, calls: RouterCalls) -> None:
        self.calls = calls

    def __call__(self, module: Any, args: tuple[Any, ...]) -> None:
        if not is_compiling():
            self.calls.routed(args)


class _After(Detachable):
    def __init__(self, calls: RouterCalls) -> None:
        self.calls = calls

    def __call__(self, module: Any, args: tuple[Any, ...], output: Any) -> None:
        if not is_compiling():
            self.calls.routed(output)
