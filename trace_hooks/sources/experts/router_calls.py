"""The hook of one router: keeps what it chooses."""

from __future__ import annotations

from typing import Any, Protocol

import torch
from torch import Tensor

from trace_hooks.recording.guard import guarded
from trace_hooks.recording.rank_state import RankState
from trace_hooks.schema import BEFORE_FIRST_STEP, UNKNOWN
from trace_hooks.sources.experts.loads import Call, Kind, has_values
from trace_hooks.sources.experts.missed import CAPTURED, Missed
from trace_hooks.sources.experts.routers import Router
from trace_hooks.sources.tensors.tensor_names import NO_LAYER
from trace_hooks.sources.tensors.tensor_samples import is_capturing, own_part
from trace_hooks.sources.training.backward import graph_task
from trace_hooks.sources.training.part_calls import Detachable
from trace_hooks.sources.unseen import unseen

MAX_KEPT = 1 << 20
"""Most values of choices that are kept until a step ends; more of them are counted at once."""

is_compiling = torch.compiler.is_compiling
is_grad_enabled = torch.is_grad_enabled


class Keeper(Protocol):
    """What follows routers."""

    rank_state: RankState
    in_step: bool
    missed: Missed
    kept: list[Call]
    num_kept: int
    """Values of the choices among them."""

    def locate(self, calls: RouterCalls) -> None:
        """Find path, stage and layer of a router."""

    def count(self) -> None:
        """Count what is kept."""


class RouterCalls:
    """Follows one router, whose hook holds it. `stage`: of its model, None: the running chunk's."""

    def __init__(self, keeper: Keeper, router: Router, path: str, stage: int | None) -> None:
        self.keeper = keeper
        self.router = router
        self.class_name = type(router.module).__name__
        self.number = -1  # among the routers of the process
        self.kind: Kind = router.num_experts, router.top_k, False
        self.path = path
        self.stage = stage
        self.chunk = UNKNOWN
        self.layer = NO_LAYER
        self.is_located = False
        self.has_begun = False  # in this step, with gradients
        self.is_unreadable = False
        self.last_step = BEFORE_FIRST_STEP  # in which it was called
        self.is_noted = False  # as one that was not called in a step
        self.handle: Any = None

    @property
    def name(self) -> str:
        """Its path, or its class where it is in no known model."""
        return self.path or self.class_name

    def hook(self) -> None:
        """Follow the router from now on, before what tensor parallelism makes of its output."""
        module = self.router.module
        if self.router.at_input:
            self.handle = module.register_forward_pre_hook(_Before(self), prepend=True)
        else:
            self.handle = module.register_forward_hook(_After(self), prepend=True)

    @guarded("experts.routed", stays_on=True)
    def routed(self, module: Any, value: Any) -> None:
        """The router, `module`, returned `value`, or was called with it."""
        keeper = self.keeper
        if not keeper.in_step:
            return
        if graph_task() >= 0:  # recomputed
            if self.has_begun:
                return
        elif not is_grad_enabled() or not module.training:
            return
        else:
            self.has_begun = True
        state = keeper.rank_state
        if state.prompting_thread:
            return
        self.last_step = state.step
        if self.is_unreadable:
            return
        if is_capturing():
            keeper.locate(self)
            keeper.missed.add(CAPTURED, [self.name])
            return
        self.is_unreadable = True  # where the next line raises; other routers go on
        call = self._read(value, state.microbatch)
        self.is_unreadable = False
        keeper.kept.append(call)
        keeper.num_kept += call[2].numel()
        if keeper.num_kept > MAX_KEPT:
            keeper.count()

    def _read(self, value: Any, microbatch: int) -> Call:
        router = self.router
        chosen = own_values(router.chosen(value))
        aux_loss = None if router.aux_loss is None else own_values(router.aux_loss(value))
        stream = torch.cuda.current_stream(chosen.device) if chosen.is_cuda else None
        if not self.is_located:
            self.kind = router.num_experts, router.top_k, check(router, chosen)
            if aux_loss is not None and aux_loss.numel() != 1:
                shape = tuple(aux_loss.shape)
                raise ValueError(f"the auxiliary loss of a router has shape {shape}; give a number")
            self.is_located = True
            self.keeper.locate(self)
        self.chunk = self.keeper.rank_state.chunk if self.stage is None else self.stage
        return self, microbatch, chosen, chosen._version, stream, aux_loss

    def bias(self) -> Tensor | None:
        """What is added to its scores, (E); None where nothing is or this rank has not all of it.

        FSDP frees the memory of parameters between forwards, or keeps a part of them.
        """
        own = own_part(self.router.bias())
        if own is None or own[1] not in ("", "whole"):
            return None
        values = own[0]
        is_whole = values.numel() == self.router.num_experts and has_values(values)
        return values.reshape(-1) if is_whole else None


def check(router: Router, chosen: Tensor) -> bool:
    """Whether each choice is another token's: top_k is 1, with or without a dimension for it.

    Raises ValueError where the choices are none of what `Router.chosen` returns.
    """
    num_experts, top_k, shape = router.num_experts, router.top_k, tuple(chosen.shape)
    is_float, is_map = chosen.is_floating_point(), chosen.dtype == torch.bool
    wrong = f"a router of {num_experts} experts returns choices of shape {shape}"
    if is_float or is_map:
        if shape[-1:] != (num_experts,):
            raise ValueError(wrong)
        if is_float and not 1 <= top_k <= num_experts:
            raise ValueError(
                f"a router returns scores; say with top_k how many of {num_experts} count"
            )
        return False
    if shape == (num_experts,):  # tokens by expert
        return False
    if top_k == 1 and shape:
        return True
    if top_k > 1 and (len(shape) == 1 or shape[-1:] != (top_k,)):
        raise ValueError(f"{wrong}, and top_k is {top_k}")
    if len(shape) < 2 or shape[-1] > num_experts:
        raise ValueError(f"{wrong}; if each token has one, say top_k=1")
    return False


def own_values(tensor: Any) -> Tensor:
    """This rank's part of a tensor, without a graph."""
    is_spread = hasattr(tensor, "to_local")
    values: Tensor = _own_values(tensor, is_spread) if is_spread or tensor.requires_grad else tensor
    return values


@unseen
def _own_values(tensor: Any, is_spread: bool) -> Any:
    return (tensor.to_local() if is_spread else tensor).detach()


class _Before(Detachable):
    def __init__(self, calls: RouterCalls) -> None:
        self.calls = calls

    def __call__(self, module: Any, args: tuple[Any, ...]) -> None:
        if not is_compiling():
            self.calls.routed(module, args)


class _After(Detachable):
    def __init__(self, calls: RouterCalls) -> None:
        self.calls = calls

    def __call__(self, module: Any, args: tuple[Any, ...], output: Any) -> None:
        if not is_compiling():
            self.calls.routed(module, output)
