"""A model in training, used for something else for a moment, and left as it was, bit for bit."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import Tensor, nn


@contextmanager
def undisturbed(models: Sequence[nn.Module]) -> Iterator[None]:
    """Models in evaluation, without gradients; afterwards nothing of training has changed.

    Kept: random states (torch's on the CPU and the devices of the models, Python's, NumPy's), the
    mode and the buffers of every module, autocast's cache, what FSDP2 holds. `train` and `eval` of
    modules, which a model may have made do more, are not called. Compiled modules run as they were
    written: another compilation could reach a limit of training's own.
    Not kept: what a module changes in itself beside its buffers.
    """
    with ExitStack() as after:
        modules = _modules(models)
        for keep in (_random_states, _modes, _buffers, _sharded):
            after.callback(keep(modules))
        was_cached = torch.is_autocast_cache_enabled()
        after.callback(torch.set_autocast_cache_enabled, was_cached)
        torch.set_autocast_cache_enabled(False)
        after.enter_context(torch.no_grad())
        if "torch._dynamo" in sys.modules:
            after.enter_context(torch.compiler.set_stance("force_eager"))
        for module in modules:
            module.training = False
        yield


def device_of(models: Sequence[nn.Module]) -> torch.device:
    """Where the models are."""
    parameters = (p for model in models for p in model.parameters())
    first = next(parameters, None)
    return torch.device("cpu") if first is None else first.device


def _modules(models: Sequence[nn.Module]) -> list[nn.Module]:
    return list({id(one): one for model in models for one in model.modules()}.values())


def _random_states(modules: list[nn.Module]) -> Callable[[], object]:
    devices = {p.device for one in modules for p in one.parameters(recurse=False) if p.is_cuda}
    if torch.cuda.is_available() and torch.cuda.is_initialized():
        devices.add(torch.device("cuda", torch.cuda.current_device()))
    on_devices = {device: torch.cuda.get_rng_state(device) for device in devices}
    on_cpu, pythons = torch.get_rng_state(), random.getstate()
    numpys: Any = sys.modules["numpy"].random.get_state() if "numpy" in sys.modules else None

    def restore() -> None:
        torch.set_rng_state(on_cpu)
        random.setstate(pythons)
        for device, state in on_devices.items():
            torch.cuda.set_rng_state(state, device)
        if numpys is not None:
            sys.modules["numpy"].random.set_state(numpys)

    return restore


def _modes(modules: list[nn.Module]) -> Callable[[], object]:
    modes = [(module, module.training) for module in modules]

    def restore() -> None:
        for module, training in modes:
            module.training = training

    return restore


def _buffers(modules: list[nn.Module]) -> Callable[[], object]:
    """The same tensors, with the values they had; others that came meanwhile go."""
    kept: list[tuple[nn.Module, dict[str, tuple[Tensor | None, Tensor | None]]]] = []
    for module in modules:
        own = module._buffers
        values = {
            name: (one, None if one is None else one.detach().clone()) for name, one in own.items()
        }
        kept.append((module, values))

    def restore() -> None:
        for module, values in kept:
            for name in [name for name in module._buffers if name not in values]:
                del module._buffers[name]
            for name, (tensor, value) in values.items():
                module._buffers[name] = tensor
                if tensor is not None and value is not None:
                    tensor.data.copy_(value)

    return restore


def _sharded(modules: list[nn.Module]) -> Callable[[], object]:
    """FSDP2 gathers weights in a forward, and notes its order for the backward pass to come."""
    states = [one._get_fsdp_state() for one in modules if hasattr(one, "_get_fsdp_state")]
    lists: list[list[Any]] = []
    for state in states:
        groups = getattr(state, "_fsdp_param_groups", ())
        lists += [getattr(group, "_post_forward_indices", []) for group in groups]
        lists.append(getattr(getattr(state, "_comm_ctx", None), "post_forward_order", []))
    before = [list(one) for one in lists]

    def restore() -> None:
        for one, was in zip(lists, before, strict=True):
            one[:] = was
        for module in modules:
            if hasattr(module, "_get_fsdp_state"):
                module.reshard()

    return restore
