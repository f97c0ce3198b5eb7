"""Memory of the host that captures are copied into, used again and again.

Memory taken anew for each capture, and given back by another thread, costs training more than the
copy: the kernel hands out pages of zeros one by one, to the hook and, where the allocator was left
without memory at hand, to the step that goes on. None of that is in the hook's own time.
"""

from __future__ import annotations

import math
from collections import defaultdict, deque

import torch
from torch import Tensor

MAX_FREE_BYTES = 64 << 20
"""Kept for captures to come; more than that goes back to the allocator."""


class HostBuffers:
    """Buffers by their size. `take` and `clear` are for the training thread, `give` for the drain
    thread; neither ever waits for the other.
    """

    def __init__(self) -> None:
        self._free: defaultdict[int, deque[Tensor]] = defaultdict(deque)
        self._given = self._taken = 0  # bytes, each counted by one thread

    def take(self, shape: torch.Size) -> Tensor:
        """Memory of a shape, float32, with any values in it."""
        count = math.prod(shape)
        try:
            flat = self._free[count].pop()
        except IndexError:
            flat = torch.empty(count, dtype=torch.float32, device="cpu")
        else:
            self._taken += flat.nbytes
        return flat.view(shape)

    def give(self, buffer: Tensor) -> None:
        """Nobody reads it any more."""
        if self._given - self._taken + buffer.nbytes <= MAX_FREE_BYTES:
            self._given += buffer.nbytes
            self._free[buffer.numel()].append(buffer.view(-1))

    def clear(self) -> None:
        """What is asked for from now on has other sizes."""
        for size in list(self._free):
            for flat in list(self._free.pop(size)):
                self._taken += flat.nbytes
