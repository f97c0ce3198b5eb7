"""Names of torch.cuda that point at the CPU, for frameworks that ask for a GPU by name.

Only jobs of this benchmark import this, before they import the framework; the hooks know nothing of
it.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable
from typing import Any

import torch

FACTORIES = ("tensor", "zeros", "ones", "empty", "full", "arange")
CPU = torch.device("cpu")


class Nothing:
    """A stream or an event of a device that needs none."""

    def __getattr__(self, name: str) -> Callable[..., None]:
        return lambda *args, **kwargs: None

    def __enter__(self) -> Nothing:
        return self

    def __exit__(self, *error: object) -> None:
        """Nothing."""


def on_cpu(factory: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    """A factory of tensors that makes those for a GPU on the CPU."""

    @functools.wraps(factory)
    def made(*args: Any, **kwargs: Any) -> torch.Tensor:
        if str(kwargs.get("device", "")).startswith("cuda"):
            kwargs["device"] = CPU
        return factory(*args, **kwargs)

    return made


def install() -> None:
    """Replace the names in torch."""
    for name in FACTORIES:
        setattr(torch, name, on_cpu(getattr(torch, name)))
    nothing = {"set_device": None, "synchronize": None, "empty_cache": None}
    for name in nothing:
        setattr(torch.cuda, name, lambda *args, **kwargs: None)
    for name in ("current_stream", "Stream", "Event"):
        setattr(torch.cuda, name, lambda *args, **kwargs: Nothing())
    torch.cuda.stream = lambda stream: contextlib.nullcontext()  # type: ignore[assignment,misc]
    torch.cuda.current_device = lambda: CPU  # type: ignore[assignment,return-value]
    torch.cuda._lazy_call = lambda call, **kwargs: call()
    torch.cuda.random.get_rng_state = lambda *args, **kwargs: torch.get_rng_state()
    torch.cuda.get_rng_state = torch.cuda.random.get_rng_state
    torch.cuda.manual_seed = torch.default_generator.manual_seed  # type: ignore[assignment]
    torch.cuda.default_generators = {CPU: torch.default_generator}  # type: ignore[assignment]
    torch.Tensor.cuda = lambda tensor, *args, **kwargs: tensor  # type: ignore[assignment]
