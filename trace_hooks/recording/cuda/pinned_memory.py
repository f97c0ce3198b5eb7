"""Copies from an accelerator to host memory, queued after the running work and never awaited."""

from __future__ import annotations

import ctypes

import torch
from torch import Tensor


class PinnedCopy:
    """A copy of a tensor; `values` may be read once `is_ready` says so and it is not lost."""

    def __init__(self, tensor: Tensor) -> None:
        # pinned: a copy to pageable memory would wait for the device; on the CPU by name: a job may
        # have another default device
        self.values = torch.empty(tensor.shape, dtype=tensor.dtype, device="cpu", pin_memory=True)
        self.values.copy_(tensor, non_blocking=True)
        self.is_lost = False  # the device failed first
        try:
            self._done = torch.cuda.current_stream(tensor.device).record_event()
        except RuntimeError:
            _never_free(self.values)
            raise

    def is_ready(self) -> bool:
        """Whether the copy has arrived, or never will. Not queried while this thread captures a
        CUDA graph: the query would end the capture.
        """
        if self.is_lost:
            return True
        try:
            return not torch.cuda.is_current_stream_capturing() and bool(self._done.query())
        except RuntimeError:
            self.is_lost = True
            _never_free(self.values)
            return True

    def __del__(self) -> None:
        """Query once more: the device may have failed since, or no caller has queried it."""
        if hasattr(self, "_done"):
            self.is_ready()


def _never_free(pinned: Tensor) -> None:
    """torch records an event when pinned memory is freed. On a failed device that raises where
    nothing can catch it, and ends the process by SIGABRT.
    """
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(pinned))
