"""Prepares the drain thread to query events of a device.

Two properties of a thread matter. A thread that never chose a device has device 0: on every other
rank of a host its first call would make a context there, which takes hundreds of MB of a GPU that
belongs to another rank. And while a thread captures a CUDA graph in the mode "global", torch's
default, an event query on any thread is refused and ends the capture, unless the querying thread
has the mode "thread-local", as torch's own watchdog of NCCL has. The driver sets that mode, not the
runtime, which might make a context as well.

Source: CUDA driver API, cuThreadExchangeStreamCaptureMode; the watchdog of NCCL in torch had both
problems (pytorch/pytorch pull requests 104487 and 148594).
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

from trace_hooks.recording.rank_state import RankState

THREAD_LOCAL = 1
_LIBRARIES = (
    ("libcuda.so.1", "cuThreadExchangeStreamCaptureMode"),
    ("libamdhip64.so", "hipThreadExchangeStreamCaptureMode"),
)


class DrainDevice:
    """The device whose events the drain thread queries. `prepare` is called on that thread."""

    def __init__(self, rank_state: RankState, load: Callable[[str], Any] | None = None) -> None:
        self.is_ready = False
        self._rank_state = rank_state
        self._load = load or (lambda name: ctypes.CDLL(name))

    def prepare(self) -> None:
        """Prepare this thread once the job has a device; raises RuntimeError where that fails."""
        device = self._rank_state.cuda_device
        if self.is_ready or device is None:
            return
        import torch

        torch.cuda.set_device(device)
        self._leave_captures_alone()
        self.is_ready = True

    def _leave_captures_alone(self) -> None:
        refusals = []
        for library, name in _LIBRARIES:
            try:
                exchange = getattr(self._load(library), name)
            except (OSError, AttributeError) as error:
                refusals.append(str(error))
                continue
            code = exchange(ctypes.byref(ctypes.c_int(THREAD_LOCAL)))
            if code == 0:
                return
            refusals.append(f"{name} answers {code}")
        raise RuntimeError(f"no device times are taken: {'; '.join(refusals)}")
