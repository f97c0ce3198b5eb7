"""A fake of the CUDA event API: streams that run behind their host, without any GPU.

It behaves as documented; docs/gpu.md describes what was seen on a real device.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

import numpy as np
import pytest

from trace_hooks.recording.cuda import cuda_clock

NEVER_NS = 1 << 62


@dataclass(slots=True)
class SimulatedEvent:
    """Takes no weak references, as those of torch must not be given any."""

    at_ns: int = 0


class SimulatedDevice:
    """Queues of work: what is put on one begins when the work before it has ended."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.host_ns = 1_000_000
        self.tick_ns = 1  # a loop that waits ends
        self.free_ns: dict[int, int] = defaultdict(int)  # by stream
        self.current = 100  # handle of the current stream
        self.capture = False
        self.other_device = False
        self.error: RuntimeError | None = None  # every call raises it from then on
        self.made = self.queries = 0
        monkeypatch.setattr(cuda_clock, "now", self._now)

    def _now(self) -> int:
        self.host_ns += self.tick_ns
        return self.host_ns

    def work(self, ns: int) -> None:
        """Put work on the current stream."""
        self.free_ns[self.current] = max(self.free_ns[self.current], self.host_ns) + ns

    def stream(self) -> int | None:
        self._fail()
        return None if self.capture or self.other_device else self.current

    def record(self, event: SimulatedEvent | None, stream: int) -> SimulatedEvent:
        self._fail()
        assert stream == self.current
        assert not self.capture, "an event was recorded into a graph"
        if event is None:
            event = SimulatedEvent()
            self.made += 1
        event.at_ns = max(self.free_ns[self.current], self.host_ns)
        return event

    def reached(self, event: SimulatedEvent) -> bool:
        self._fail()
        self.queries += 1
        return self.host_ns >= event.at_ns

    def elapsed_ms(self, first: SimulatedEvent, second: SimulatedEvent) -> float:
        self._fail()
        if max(first.at_ns, second.at_ns) > self.host_ns:
            raise RuntimeError("CUDA error: device not ready")  # as cudaEventElapsedTime does
        return float(np.float32((second.at_ns - first.at_ns) / 1e6))

    def _fail(self) -> None:
        if self.error is not None:
            raise self.error
