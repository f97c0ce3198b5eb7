"""The arithmetic of device times, on a simulated device that runs behind its host."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from trace_hooks import cuda_clock
from trace_hooks.cuda_clock import CudaClock


@dataclass
class SimulatedEvent:
    at_ns: int = 0


class SimulatedDevice:
    """A device with a queue: work put on it begins when the work before it has ended."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.host_ns = 1_000_000
        self.free_ns = 0
        self.capture = False
        self.made = 0
        monkeypatch.setattr(cuda_clock, "now", lambda: self.host_ns)

    def work(self, ns: int) -> None:
        self.free_ns = max(self.free_ns, self.host_ns) + ns

    def record(self, event: SimulatedEvent | None) -> SimulatedEvent:
        if event is None:
            event = SimulatedEvent()
            self.made += 1
        event.at_ns = max(self.free_ns, self.host_ns)
        return event

    def reached(self, event: SimulatedEvent) -> bool:
        return self.host_ns >= event.at_ns

    def elapsed_ms(self, first: SimulatedEvent, second: SimulatedEvent) -> float:
        return float(np.float32((second.at_ns - first.at_ns) / 1e6))

    def capturing(self) -> bool:
        return self.capture


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch) -> SimulatedDevice:
    return SimulatedDevice(monkeypatch)


def test_stamps_are_dated_when_the_device_reaches_them(device: SimulatedDevice) -> None:
    clock = CudaClock(device, "cuda:0")
    device.work(5_000_000)
    stamp = clock.mark()
    assert clock.resolve(stamp) is None
    device.host_ns += 6_000_000
    assert clock.resolve(stamp) == 1_000_000 + 5_000_000


def test_an_hour_of_steps_stays_exact_to_a_microsecond(device: SimulatedDevice) -> None:
    clock = CudaClock(device, "cuda:0")
    worst_ns = 0
    for _ in range(1800):
        device.host_ns += 2_000_000_000
        clock.begin_step()
        device.work(1_234_567_891)
        stamp = clock.mark()
        reached_ns = stamp.event.at_ns
        device.host_ns += 1_300_000_000
        worst_ns = max(worst_ns, abs(clock.resolve(stamp) - reached_ns))
        clock.release(stamp)
    assert worst_ns < 1_000
    assert device.made == 1 + 1800 + 1  # the first, one anchor a step, one stamp used again


def test_a_device_behind_its_host_is_not_dated_before_it_was_told(device: SimulatedDevice) -> None:
    clock = CudaClock(device, "cuda:0")
    stamps: list[Any] = []
    for _ in range(10):  # the host runs ahead by 9 x 90 ms
        clock.begin_step()
        device.work(100_000_000)
        stamps.append(clock.mark())
        device.host_ns += 10_000_000
    assert clock.resolve(stamps[-1]) is None
    device.host_ns += 2_000_000_000
    dated = [clock.resolve(stamp) for stamp in stamps]
    true = [1_000_000 + 100_000_000 * (n + 1) for n in range(10)]
    assert np.abs(np.subtract(dated, true)).max() < 100


def test_nothing_is_recorded_while_a_graph_is_captured(device: SimulatedDevice) -> None:
    clock = CudaClock(device, "cuda:0")
    device.capture = True
    made = device.made
    clock.begin_step()
    assert clock.mark() is None
    assert device.made == made
