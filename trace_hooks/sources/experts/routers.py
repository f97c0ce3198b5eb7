"""Modules that choose experts for tokens: those of known frameworks, and what they return.

Nothing is imported: modules are known by the names of their classes, children and arguments.
Megatron-core: TopKRouter. torchtitan: TokenChoiceTopKRouter. Hugging Face transformers 5: the
`experts` of a block, which get the choices; 4: a linear `gate`, whose greatest logits are chosen,
or that of DeepSeek, which returns the choices.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from operator import itemgetter
from typing import Any
from weakref import ref

from torch import Tensor, nn

from trace_hooks.schema import UNKNOWN
from trace_hooks.sources.alive import alive
from trace_hooks.sources.training.module_parts import is_compiled
from trace_hooks.sources.unseen import unseen

Chosen = Callable[[Any], Tensor]


def no_bias() -> None:
    """The bias of a router that has none."""
    return None


@dataclass(frozen=True, eq=False)
class Router:
    """A module that chooses, for N tokens, among the E experts of a layer; held weakly.

    `chosen`: of what the module returns (with `at_input`, of its positional arguments), one of:
    integers (..., K), the experts of each token, negative where a choice was dropped, or (...)
    where `top_k` is 1; bool (..., E), whether a token goes to an expert; integers (E), tokens by
    expert; floating point (..., E), scores of which the `top_k` greatest are chosen.
    """

    held: ref[nn.Module]
    num_experts: int
    chosen: Chosen
    top_k: int = UNKNOWN
    at_input: bool = False
    first_expert: int = UNKNOWN
    local_experts: int = UNKNOWN
    bias: Callable[[], Tensor | None] = no_bias
    """(E), added to the scores."""
    aux_loss: Callable[[Any], Tensor] | None = None
    """Of what the module returns: (), its load-balancing loss."""

    @property
    def module(self) -> nn.Module:
        """Raises RuntimeError where it is gone."""
        return alive(self.held, "the router")


def find_routers(model: nn.Module) -> Iterator[tuple[str, Router, bool]]:
    """(path below `model`, router, whether it lies in a compiled region) of known frameworks."""
    seen: set[int] = set()

    def walk(module: nn.Module, path: str, compiled: bool) -> Iterator[tuple[str, Router, bool]]:
        if id(module) in seen:
            return
        seen.add(id(module))
        compiled = compiled or is_compiled(module)
        for find in (_megatron, _torchtitan, _transformers):
            router = find(module)
            if router is not None:
                name = next(n for n, m in module.named_modules() if m is router.module)
                inside = compiled or is_compiled(router.module)
                yield ".".join(part for part in (path, name) if part), router, inside
                break
        for name, child in module.named_children():
            yield from walk(child, f"{path}.{name}" if path else name, compiled)

    return walk(model, "", False)


def own_router(
    module: nn.Module,
    num_experts: int,
    chosen: int | str | Chosen | None,
    top_k: int | None,
    local: range | None,
    bias: str | Callable[[], Tensor | None] | None,
    aux_loss: int | str | Callable[[Any], Tensor] | None,
) -> Router:
    """The router that a user describes, see Tracer.router; raises TypeError or ValueError."""
    if not isinstance(module, nn.Module):
        raise TypeError(f"router needs an nn.Module, got {type(module).__name__}")
    if type(num_experts) is not int or num_experts < 1:
        raise ValueError(f"num_experts is {num_experts!r}; give a whole number from 1")
    if local is not None and not (0 <= local.start <= local.stop <= num_experts):
        raise ValueError(f"local is {local}; give a range within the {num_experts} experts")
    return Router(
        ref(module),
        num_experts,
        _first_choice if chosen is None else _reader(chosen),
        UNKNOWN if top_k is None else top_k,
        first_expert=UNKNOWN if local is None else local.start,
        local_experts=UNKNOWN if local is None else len(local),
        bias=_attribute(module, bias) if isinstance(bias, str) else bias or no_bias,
        aux_loss=None if aux_loss is None else _reader(aux_loss),
    )


def _reader(where: int | str | Callable[[Any], Tensor]) -> Callable[[Any], Tensor]:
    """Reads a part of an output: at a position, by a key or an attribute, or as a function does."""
    if callable(where):
        return unseen(where)

    def read(output: Any) -> Tensor:
        if isinstance(where, str) and not isinstance(output, dict):
            return getattr(output, where)
        return output[where]

    return read


def _first_choice(output: Any) -> Tensor:
    """The output itself, or the first tensor in it that is not of floating point."""
    if isinstance(output, Tensor):
        return output
    values = output.values() if isinstance(output, dict) else output
    for value in values:
        if isinstance(value, Tensor) and not value.is_floating_point():
            return value
    raise ValueError("the router returns no choices; say with `chosen` where they are")


def _attribute(module: nn.Module, name: str) -> Callable[[], Tensor | None]:
    """Reads an attribute when it is called: buffers are replaced when a model moves."""
    held = ref(module)
    return lambda: getattr(held(), name, None)


def _has_class(module: Any, name: str) -> bool:
    return any(kind.__name__ == name for kind in type(module).__mro__)


def _megatron(layer: nn.Module) -> Router | None:
    """The router of a MoELayer; it returns (probabilities, bool (N, E))."""
    router: Any = getattr(layer, "router", None)
    if not _has_class(router, "TopKRouter") or not hasattr(router, "routing"):
        return None
    local = list(getattr(layer, "local_expert_indices", ()))
    return Router(
        ref(router),
        int(router.config.num_moe_experts),
        itemgetter(1),
        int(router.topk),
        first_expert=local[0] if local else UNKNOWN,
        local_experts=len(local) or UNKNOWN,
        bias=_attribute(router, "expert_bias"),
    )


def _torchtitan(moe: nn.Module) -> Router | None:
    """The router of a MoE; it returns (scores, integers (..., K), ...)."""
    router: Any = getattr(moe, "router", None)
    if not _has_class(router, "TokenChoiceTopKRouter"):
        return None
    num_experts = int(router.num_experts)
    names = ("expert_bias_E", "expert_bias")
    bias = next((name for name in names if hasattr(moe, name)), names[0])
    return Router(
        ref(router),
        num_experts,
        itemgetter(1),
        int(router.top_k),
        False,
        *_local(moe, num_experts),
        bias=_attribute(moe, bias),
    )


def _transformers(block: nn.Module) -> Router | None:
    """The router of a block of Hugging Face transformers."""
    experts: Any = getattr(block, "experts", None)
    gate = next((m for n in ("gate", "router") if (m := getattr(block, n, None)) is not None), None)
    if not isinstance(experts, nn.Module) or not isinstance(gate, nn.Module):
        return None
    if "top_k_index" in _arguments(experts):
        num_experts = int(experts.num_experts)
        if getattr(gate, "num_experts", num_experts) != num_experts:
            return None  # expert parallel: the indices are no longer those of the layer
        bias = _attribute(gate, "e_score_correction_bias")
        top_k = int(getattr(gate, "top_k", UNKNOWN))
        local = _local(experts, num_experts)
        return Router(ref(experts), num_experts, itemgetter(1), top_k, True, *local, bias)
    if not isinstance(experts, nn.ModuleList):
        return None
    if type(gate) is nn.Linear and (top_k := getattr(block, "top_k", 0)) > 0:
        local = _local(experts, gate.out_features)
        return Router(ref(gate), gate.out_features, lambda logits: logits, top_k, False, *local)
    num_experts, top_k = getattr(gate, "n_routed_experts", 0), getattr(gate, "top_k", UNKNOWN)
    if not num_experts:
        return None
    local = _local(experts, num_experts)
    bias = _attribute(gate, "e_score_correction_bias")
    return Router(ref(gate), num_experts, _first_choice, top_k, False, *local, bias)


def _arguments(module: nn.Module) -> tuple[str, ...]:
    """Names of the arguments of a module's forward, without self."""
    forward = inspect.unwrap(type(module).forward)
    return tuple(inspect.signature(forward).parameters)[1:]


def _local(experts: nn.Module, num_experts: int) -> tuple[int, int]:
    """(first, number) of the experts on this rank, by the first dimension of their parameters."""
    if isinstance(experts, nn.ModuleList):
        whole = len(experts) == num_experts
        return (0, num_experts) if whole else (UNKNOWN, UNKNOWN)
    for parameter in experts.parameters():
        mesh: Any = getattr(parameter, "device_mesh", None)
        names = () if mesh is None else mesh.mesh_dim_names or ()
        if "ep" in names:
            size, index = mesh["ep"].size(), mesh.get_local_rank("ep")
            local = num_experts // size
            return index * local, local
        if parameter.dim() == 3 and parameter.shape[0] == num_experts:
            return 0, num_experts
    return UNKNOWN, UNKNOWN
