"""Numbers that a job logs: read at once on the host, later where a device still computes them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from trace_hooks.recording.cuda.pinned_memory import PinnedCopy

LOGGED = ("loss", "grad_norm", "tokens", "flops", "lr")


class Value(Protocol):
    """A number that is known, or will be."""

    def is_ready(self) -> bool:
        """Whether `number` answers without waiting."""

    def number(self) -> float | None:
        """The number; None where the device lost it."""


class Known:
    """A number on the host."""

    def __init__(self, number: float) -> None:
        self._number = number

    def is_ready(self) -> bool:
        """It is."""
        return True

    def number(self) -> float:
        """The number."""
        return self._number


class OnDevice:
    """A number an accelerator still computes."""

    def __init__(self, copy: PinnedCopy) -> None:
        self._copy = copy

    def is_ready(self) -> bool:
        """Whether the copy has arrived, or never will because the device has failed."""
        return self._copy.is_ready()

    def number(self) -> float | None:
        """The number, None where it was lost; only after is_ready."""
        return None if self._copy.is_lost else float(self._copy.values)


def logged_value(value: Any) -> Value:
    """Value of a number or a tensor with one element.

    Raises ValueError for anything else, and for a distributed tensor whose parts would have to be
    gathered first: hooks never communicate.
    """
    if hasattr(value, "detach"):
        value = value.detach()
        if hasattr(value, "to_local"):
            if any(not placement.is_replicate() for placement in value.placements):
                raise ValueError("a sharded tensor cannot be logged; reduce it first")
            value = value.to_local()
        if value.numel() != 1:
            raise ValueError(f"only single numbers can be logged, not {tuple(value.shape)}")
        if value.is_cuda:
            import torch

            from trace_hooks.recording.cuda.pinned_memory import PinnedCopy

            if torch.cuda.is_current_stream_capturing():
                raise ValueError("a number cannot be logged while a CUDA graph is captured")
            return OnDevice(PinnedCopy(value))
    try:
        return Known(float(value))
    except (TypeError, ValueError):
        raise ValueError(f"{value!r} is not a number") from None
    except OverflowError:
        raise ValueError("an integer beyond 1e308 cannot be logged") from None


def read_values(values: Mapping[str, Any]) -> tuple[dict[str, Value], list[str]]:
    """The numbers among `values` by name, None left out, and what is wrong with the others."""
    read: dict[str, Value] = {}
    problems = []
    unknown = [name for name in values if name not in LOGGED]
    if unknown:
        problems.append(f"log takes {', '.join(LOGGED)}, not {', '.join(unknown)}")
    for name in LOGGED:
        if values.get(name) is not None:
            try:
                read[name] = logged_value(values[name])
            except ValueError as error:
                problems.append(f"{name}: {error}")
    return read, problems
