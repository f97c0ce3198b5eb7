"""(k) What the calls into CUDA that recording makes cost the host, one by one.

A mark of the hooks asks for the current device and stream, whether a graph is being captured, and
records an event; each span has two. The drain thread asks whether events are reached and for the
time between two. A step reads the allocator's counters, a logged value is copied to pinned memory.
Each is called many times in a row while the device is idle, the device at rest in between; the
figure is the median CPU time of the calling thread over rounds. An operator of torch on one number
is there to compare with: it is what a launch costs on this host.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from benchmarks.gpu.figures import Figure, Place
from benchmarks.gpu.spread import spread
from benchmarks.timing import in_turns, loop_ns
from trace_hooks.recording.clock import thread_cpu
from trace_hooks.recording.cuda.cuda_clock import CudaClock, CudaEvents
from trace_hooks.recording.cuda.pinned_memory import PinnedCopy
from trace_hooks.recording.recorder import Recorder
from trace_hooks.sources.training.memory import cuda_counters, resident_bytes

CALLS, ROUNDS = 200, 9

Calls = dict[str, Callable[[], Any]]


def measure(place: Place) -> None:
    """All of them in turns."""
    calls = _of_host() | ({} if place.is_rehearsal else _of_cuda())

    def turn(name: str) -> float:
        ns = loop_ns(calls[name], place.sized(CALLS, 5))
        place.wait()
        return ns / 1e3

    for name, times_us in in_turns(calls, ROUNDS, turn).items():
        found = spread(times_us)
        place.say_of_gpu(Figure(name, found.median, "us", note=found.in_words("us")))


def _of_host() -> Calls:
    recorder = Recorder()
    site = recorder.site("a", "forward")
    return {
        "the thread's CPU clock": thread_cpu,
        "resident memory of the process": resident_bytes,
        "a span without a device": lambda: recorder.close(site, recorder.open()),
    }


def _of_cuda() -> Calls:
    events = CudaEvents(torch.cuda.current_device())
    clock = CudaClock(events, "cuda:0")
    stream = events.stream()
    assert stream is not None
    first, second = (events.record(None, stream) for _ in range(2))
    plain, number = torch.cuda.Event(), torch.zeros(1, device="cuda")
    recorder = Recorder(clock)
    site = recorder.site("a", "forward")

    def span() -> None:
        recorder.close(site, recorder.open())
        for event in recorder.spans[-2:]:
            clock.release(event)
        recorder.spans.clear()

    return {
        "an operator of torch": lambda: number.add_(1.0),
        "torch.cuda.current_stream": torch.cuda.current_stream,
        "device, stream and capture": events.stream,
        "an event with time, recorded again": lambda: events.record(first, stream),
        "an event without time, recorded again": plain.record,
        "a new event with time": lambda: events.record(None, stream),
        "an event asked whether it is reached": lambda: events.reached(second),
        "the time between two events": lambda: events.elapsed_ms(second, second),
        "a span of the device": span,
        "the allocator's counters": cuda_counters,
        "a number copied to pinned memory": lambda: PinnedCopy(number),
    }
