"""Prepares the drain thread for asking a device whether it has reached an event.

While a thread captures a CUDA graph in the mode "global", torch's default, CUDA refuses
cudaEventQuery on every thread, and the refused call also ends the capture: a thread that polls
events would break the graph of the job. A thread in the mode "relaxed" may query events that are no
part of a capture. The driver is asked, not the runtime: on a thread that has used no device yet the
runtime would make a context on device 0, which takes hundreds of MB there from another rank. For
the same reason the thread takes the device of the job as its own.

Source: CUDA driver API, cuThreadExchangeStreamCaptureMode; the watchdog of NCCL in torch had both
problems (pytorch/pytorch pull requests 104487 and 148594).
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

RELAXED = 2
_LIBRARIES = (
    ("libcuda.so.1", "cuThreadExchangeStreamCaptureMode"),
    ("libamdhip64.so", "hipThreadExchangeStreamCaptureMode"),
)


class DrainDevice:
    """The device that the drain thread asks. `prepare` is called on that thread."""

    def __init__(self, load: Callable[[str], Any] = ctypes.CDLL) -> None:
        self.device: int | None = None
        """Set by the training thread once it uses one."""
        self.is_ready = False
        self._load = load

    def prepare(self) -> None:
        """Prepare this thread once there is a device; raises RuntimeError where it cannot be."""
        if self.is_ready or self.device is None:
            return
        self._relax()
        import torch

        torch.cuda.set_device(self.device)
        self.is_ready = True

    def _relax(self) -> None:
        refusals = []
        for library, name in _LIBRARIES:
            try:
                exchange = getattr(self._load(library), name)
            except (OSError, AttributeError) as error:
                refusals.append(str(error))
                continue
            code = exchange(ctypes.byref(ctypes.c_int(RELAXED)))
            if code == 0:
                return
            refusals.append(f"{name} answers {code}")
        raise RuntimeError(f"no device times are taken: {'; '.join(refusals)}")
