"""Numbers a job logs: read at once where that is free, later where a device still computes them."""

from __future__ import annotations

import ctypes
from typing import Any, Protocol

LOGGED = ("loss", "grad_norm", "tokens", "flops", "lr")


class Value(Protocol):
    """A number that is known, or will be."""

    def is_ready(self) -> bool:
        """Whether `number` answers without waiting."""

    def number(self) -> float | None:
        """The number; None where the device lost it."""


class Known:
    """A number that is here."""

    def __init__(self, number: float) -> None:
        self._number = number

    def is_ready(self) -> bool:
        """It is."""
        return True

    def number(self) -> float:
        """The number."""
        return self._number


class OnDevice:
    """A number an accelerator still computes: copied to the host behind it, never awaited."""

    def __init__(self, tensor: Any, torch: Any) -> None:
        # pinned: a copy to pageable memory would wait for the device
        self._copy = torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=True)
        self._copy.copy_(tensor, non_blocking=True)
        self._done = torch.cuda.current_stream(tensor.device).record_event()
        self._is_lost = False

    def is_ready(self) -> bool:
        """Whether the copy has arrived, or never will: the device has failed."""
        try:
            return bool(self._done.query())
        except RuntimeError:
            if not self._is_lost:
                # torch records an event where pinned memory is freed: that would fail, too, where
                # nothing can catch it, and end the process by SIGABRT. So it is never freed.
                ctypes.pythonapi.Py_IncRef(ctypes.py_object(self._copy))
            self._is_lost = True
            return True

    def number(self) -> float | None:
        """The number, None where it was lost; only after is_ready."""
        return None if self._is_lost else float(self._copy)


def logged_value(value: Any) -> Value:
    """Value of a number or a tensor with one element.

    Raises ValueError for what is neither, and for a distributed tensor whose parts would have to
    be gathered first: hooks never communicate.
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

            if torch.cuda.is_current_stream_capturing():
                raise ValueError("a number cannot be logged while a CUDA graph is captured")
            return OnDevice(value, torch)
    try:
        return Known(float(value))
    except (TypeError, ValueError):
        raise ValueError(f"{value!r} is no number") from None
