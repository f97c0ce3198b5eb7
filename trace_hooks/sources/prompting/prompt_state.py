"""Runs a model in training for another purpose, and restores its state bit for bit."""

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
    """Context with the models in evaluation mode, without gradients; restores training's state.

    Restored: random states (torch's on the CPU and the models' devices, Python's, NumPy's), the
    mode and the buffers of every module, autocast's cache, the state of FSDP2. `train` and `eval`
    of modules, which a model may override, are not called. Compiled modules run uncompiled: another
    compilation could exceed the job's recompilation limit. Not restored: anything but buffers that
    a module changes in itself.
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
    """Device of the models."""
    parameters = (p for model in models for p in model.parameters())
    first = next(parameters, None)
    return torch.device("cpu") if first is None else first.device


def _modules(models: Sequence[nn.Module]) -> list[nn.Module]:
    return list({id(module): module for model in models for module in model.modules()}.values())


def _random_states(modules: list[nn.Module]) -> Callable[[], object]:
    devices = {
        p.device for module in modules for p in module.parameters(recurse=False) if p.is_cuda
    }
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
    """Restores the same tensors with their values; removes buffers that were added meanwhile."""
    kept: list[tuple[nn.Module, dict[str, tuple[Tensor | None, Tensor | None]]]] = []
    for module in modules:
        own = module._buffers
        values = {
            name: (buffer, None if buffer is None else buffer.detach().clone())
            for name, buffer in own.items()
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
    """Reshards weights that FSDP2 gathers in a forward, and restores its notes for the backward."""
    states = [module._get_fsdp_state() for module in modules if hasattr(module, "_get_fsdp_state")]
    lists: list[list[Any]] = []
    for state in states:
        groups = getattr(state, "_fsdp_param_groups", ())
        lists += [getattr(group, "_post_forward_indices", []) for group in groups]
        lists.append(getattr(getattr(state, "_comm_ctx", None), "post_forward_order", []))
    before = [list(module) for module in lists]

    def restore() -> None:
        for order, was in zip(lists, before, strict=True):
            order[:] = was
        for order in modules:
            if hasattr(order, "_get_fsdp_state"):
                order.reshard()

    return restore
