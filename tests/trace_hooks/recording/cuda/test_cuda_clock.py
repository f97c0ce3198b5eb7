"""The arithmetic of device times and what happens when a device fails, on a fake of its events."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.trace_hooks.recording.cuda.simulated_device import NEVER_NS, SimulatedDevice
from trace_hooks.recording.clock import LOST
from trace_hooks.recording.cuda import cuda_clock
from trace_hooks.recording.cuda.cuda_clock import CudaClock


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch) -> SimulatedDevice:
    return SimulatedDevice(monkeypatch)


def test_stamps_are_dated_when_the_device_reaches_them(device: SimulatedDevice) -> None:
    clock = CudaClock(device, "cuda:0")
    device.work(5_000_000)
    begun_ns = device.host_ns
    stamp = clock.mark()
    assert clock.resolve(stamp) is None
    device.host_ns += 6_000_000
    assert clock.resolve(stamp) == pytest.approx(begun_ns + 5_000_000, abs=10)


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


def test_a_device_behind_its_host_is_not_dated_before_its_work_was_issued(
    device: SimulatedDevice,
) -> None:
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
    true = [stamp.event.at_ns for stamp in stamps]
    assert true == pytest.approx([1_000_000 + 100_000_000 * (n + 1) for n in range(10)], abs=100)
    assert np.abs(np.subtract(dated, true)).max() < 100


def test_nothing_is_recorded_while_a_graph_is_captured(device: SimulatedDevice) -> None:
    clock = CudaClock(device, "cuda:0")
    device.capture = True
    made = device.made
    clock.begin_step()
    assert clock.mark() is None
    assert device.made == made


def test_nothing_is_recorded_while_another_device_is_current(device: SimulatedDevice) -> None:
    clock = CudaClock(device, "cuda:0")
    device.other_device = True
    assert clock.mark() is None


def test_streams_have_tracks_of_their_own(device: SimulatedDevice) -> None:
    clock = CudaClock(device, "cuda:1")
    first = clock.mark()
    device.current = 7
    second = clock.mark()
    device.current = 100
    assert first is not None
    assert second is not None
    assert [clock.stream_of(one) for one in (first, second, clock.mark())] == [0, 1, 0]
    assert [clock.track(number) for number in (0, 1)] == ["cuda:1", "cuda:1 stream 1"]


def test_a_stream_that_overtakes_another_is_dated_right(device: SimulatedDevice) -> None:
    clock = CudaClock(device, "cuda:0")
    clock.begin_step()
    device.work(50_000_000)
    slow = clock.mark()
    device.current = 7
    device.work(1_000_000)
    fast = clock.mark()
    assert slow is not None
    assert fast is not None
    device.host_ns += 2_000_000
    assert clock.resolve(slow) is None
    assert clock.resolve(fast) == pytest.approx(fast.event.at_ns, abs=10)
    device.host_ns += 60_000_000
    assert clock.resolve(slow) == pytest.approx(slow.event.at_ns, abs=10)


def test_a_busy_device_is_waited_for_once_and_not_for_long(device: SimulatedDevice) -> None:
    device.work(NEVER_NS // 2)
    begun_ns, device.tick_ns = device.host_ns, 10_000
    clock = CudaClock(device, "cuda:0")
    assert device.host_ns - begun_ns < cuda_clock.FIRST_WAIT_S * 1.1e9
    device.tick_ns = 1
    device.current = 7  # another stream runs, the first anchor is still to be reached
    stamp = clock.mark()
    assert stamp is not None
    device.host_ns += 1_000_000
    assert clock.resolve(stamp) is None
    device.host_ns = NEVER_NS
    assert clock.resolve(stamp) is not None


def test_events_that_nobody_resolves_are_bounded(
    device: SimulatedDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cuda_clock, "MAX_EVENTS", 10)
    clock = CudaClock(device, "cuda:0")
    made = device.made
    stamps = [clock.mark() for _ in range(25)]
    assert device.made - made == 10
    dates = [clock.resolve(stamp) for stamp in stamps if stamp is not None]
    assert dates.count(LOST) == 15
    for stamp in stamps:
        assert stamp is not None
        clock.release(stamp)
    again = [clock.mark() for _ in range(11)]
    assert [stamp.event is None for stamp in again if stamp is not None] == [False] * 10 + [True]


def test_steps_that_nothing_is_marked_in_keep_few_events(device: SimulatedDevice) -> None:
    clock = CudaClock(device, "cuda:0")
    for _ in range(20_000):  # 0.2 s each
        device.host_ns += 200_000_000
        clock.begin_step()
    anchor, kept = clock._anchor, 0
    while anchor.before is not None:
        anchor, kept = anchor.before, kept + 1
    assert kept <= 20_000 * 0.2 / 60 + 1
    device.work(1_234_567_891)
    stamp = clock.mark()
    assert stamp is not None
    assert stamp.event is not None
    reached_ns = stamp.event.at_ns
    device.host_ns += 1_300_000_000
    assert clock.resolve(stamp) == pytest.approx(reached_ns, abs=300)


def test_marks_that_nobody_ends_do_not_use_up_the_events(
    device: SimulatedDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spans left open by an exception, prompts, messages without a wait."""
    monkeypatch.setattr(cuda_clock, "MAX_EVENTS", 10)
    clock = CudaClock(device, "cuda:0")
    for _ in range(25):
        stamp = clock.mark()
        assert stamp is not None
        assert stamp.event is not None


@pytest.mark.parametrize("at", ["mark", "begin_step", "resolve"])
def test_a_device_that_fails_is_lost_and_reported_once(device: SimulatedDevice, at: str) -> None:
    errors: list[Exception] = []
    clock = CudaClock(device, "cuda:0", errors.append)
    stamp = clock.mark()
    assert stamp is not None
    device.error = RuntimeError("CUDA error: device-side assert triggered")
    calls = {"mark": clock.mark, "begin_step": clock.begin_step}
    calls["resolve"] = lambda: clock.resolve(stamp)
    for name in [at, "mark", "begin_step", "resolve"]:
        assert calls[name]() in (None, LOST)
    assert clock.resolve(stamp) == LOST
    assert errors == [device.error]
