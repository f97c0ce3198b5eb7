"""One capture of kernels on a rank: its profiler, its steps, what it cost."""

from __future__ import annotations

from collections.abc import Iterator
from threading import get_ident, get_native_id
from typing import Any

import torch
from torch.autograd.profiler import profile

from trace_hooks.protocol.capture_request import CaptureRequest
from trace_hooks.recording.clock import Anchor, now
from trace_hooks.sources.profiling.profiled_rows import ProfiledSpan, StepWindows
from trace_hooks.sources.training.memory import resident_bytes

MAX_S = 20.0
"""A capture ends with the step in which it has lasted this long ..."""
MAX_GROWTH = 1 << 30
"""... or the process has grown by this many bytes."""


class Capture:
    """One capture, from its first step until its spans are recorded."""

    def __init__(self, request: CaptureRequest, before_ns: int) -> None:
        self.steps = request.steps
        self.windows = StepWindows()
        self.anchor = Anchor()
        self.begin_ns = now()
        self.before_ns = before_ns  # thread CPU time of the step before; 0 unknown
        self.own_ns = 0  # thread CPU time of starting and stopping
        self.step_ns: list[int] = []  # thread CPU time of each captured step
        self.thread = get_ident()
        self.native_thread = get_native_id()
        self.rss = resident_bytes()
        device = "cuda" if torch.cuda.is_initialized() else None
        self.profiler: Any = profile(use_device=device, use_kineto=True, acc_events=False)
        self.spans: Iterator[ProfiledSpan] | None = None
        self.drain_ns = 0  # CPU time of making spans, on the drain thread
        self.num_events = 0
        self.num_spans = 0

    @property
    def is_complete(self) -> bool:
        """Whether the running step is its last."""
        return (
            len(self.windows.numbers) >= self.steps
            or now() - self.begin_ns > MAX_S * 1e9
            or resident_bytes() - self.rss > MAX_GROWTH
        )


def numbers(capture: Capture) -> dict[str, Any]:
    """Steps and CPU time of the training thread, as args of a mark."""
    steps = capture.step_ns or [0]
    return {
        "first_step": capture.windows.numbers[0],
        "steps": len(capture.windows.numbers),
        "start_and_stop_ms": round(capture.own_ns / 1e6, 3),
        "step_ms": round(sum(steps) / len(steps) / 1e6, 3),
        "step_before_ms": round(capture.before_ns / 1e6, 3) if capture.before_ns else None,
    }


def cost(capture: Capture) -> str:
    """The same in a sentence."""
    values = numbers(capture)
    before = values["step_before_ms"]
    against = "" if before is None else f" (the step before: {before} ms)"
    return (
        f"captured {values['steps']} steps from step {values['first_step']}; they took "
        f"{values['step_ms']} ms of CPU time of the training thread each{against}, starting and "
        f"stopping {values['start_and_stop_ms']} ms"
    )
