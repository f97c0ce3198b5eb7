"""Reused host memory that captures are copied into.

Memory that is allocated for each capture, and freed by another thread, costs training more than the
copy: the kernel hands out zeroed pages one by one, to the hook and, where the allocator has no free
memory left, to the step that follows. None of that shows in the hook's own time.
"""

from __future__ import annotations

import math
from collections import defaultdict, deque

import torch
from torch import Tensor

MAX_FREE_BYTES = 64 << 20
"""Bytes kept for later captures; more goes back to the allocator."""


class HostBuffers:
    """Buffers by their size. `take` and `clear` are for the training thread, `give` for the drain
    thread; neither ever waits for the other.
    """

    def __init__(self) -> None:
        self._free: defaultdict[int, deque[Tensor]] = defaultdict(deque)
        self._given = self._taken = 0  # bytes, each counted by one thread

    def take(self, shape: torch.Size) -> Tensor:
        """Uninitialised float32 memory of a shape."""
        count = math.prod(shape)
        try:
            flat = self._free[count].pop()
        except IndexError:
            flat = torch.empty(count, dtype=torch.float32, device="cpu")
        else:
            self._taken += flat.nbytes
        return flat.view(shape)

    def give(self, buffer: Tensor) -> None:
        """Keep a buffer that is not read any more."""
        if self._given - self._taken + buffer.nbytes <= MAX_FREE_BYTES:
            self._given += buffer.nbytes
            self._free[buffer.numel()].append(buffer.view(-1))

    def clear(self) -> None:
        """Free all buffers: later captures have other sizes."""
        for size in list(self._free):
            for flat in list(self._free.pop(size)):
                self._taken += flat.nbytes
