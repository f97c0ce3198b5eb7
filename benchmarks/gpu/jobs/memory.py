"""Memory of one training process; hands over samples during the steps and the peaks.

python -m benchmarks.gpu.jobs.memory cuda|cpu large|small off|layers|statistics|watch STEPS

Each way of recording has a separate process: memory of the host is not given back, so one way would
hide the next.
"""

from __future__ import annotations

import sys
import tempfile
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch

from benchmarks.gpu.children import hand_over
from benchmarks.gpu.figures import Place
from benchmarks.gpu.training import (
    WORKLOADS,
    Step,
    Training,
    logged_step,
    recording,
    settle,
    warm_up,
)
from trace_hooks.sources.training.memory import resident_bytes
from trace_hooks.tracer import Tracer

OFF = "off"
WATCH = {"id": "w", "what": "attention", "layers": [0], "every": 10}
WAYS: dict[str, dict[str, Any]] = {
    "layers": {"level": "layers"},
    "statistics": {"statistics": 10},
    "watch": {"allow_content": True, "watches": [WATCH]},
}
SAMPLES = 40


@dataclass(frozen=True)
class Sample:
    """Bytes after this many steps, with the device idle.

    `requested` and `allocated`: of torch's allocator; `taken`: of the whole device, by anybody;
    `pinned`: of the host, where torch counts it; `rss`: of the process.
    """

    step: int
    rss: int
    requested: int = 0
    allocated: int = 0
    taken: int = 0
    pinned: int = 0


@dataclass(frozen=True)
class Memory:
    """Results of one process. `peak_*`: the maximum during its steps."""

    samples: list[Sample]
    peak_requested: int
    peak_allocated: int
    dropped: int

    @classmethod
    def from_json(cls, handed_over: dict[str, Any]) -> Memory:
        """From the object that `main` hands over."""
        return cls(**handed_over | {"samples": [Sample(**one) for one in handed_over["samples"]]})


def main() -> None:
    device, workload, way, num_steps = sys.argv[1:]
    with tempfile.TemporaryDirectory() as folder:
        place = Place(device, Path(folder), print)
        found = trained(place, Training(place, WORKLOADS[workload]), way, int(num_steps))
    hand_over(asdict(found))


def trained(place: Place, training: Training, way: str, num_steps: int) -> Memory:
    """This many steps after some to warm up; hooks by their name in WAYS, or OFF."""
    with ExitStack() as opened:
        step: Step = training.step
        tracer: Tracer | None = None
        if way != OFF:
            tracer = opened.enter_context(recording(training, place.folder, **WAYS[way]))
            step = partial(logged_step, training, tracer)
            settle(place, tracer, step)
        warm_up(place, step)
        if not place.is_rehearsal:
            torch.cuda.reset_peak_memory_stats()
        every = max(1, num_steps // SAMPLES)
        samples = [sample(place, 0)]
        for number in range(1, num_steps + 1):
            step()
            if number % every == 0:
                samples.append(sample(place, number))
        stats = {} if place.is_rehearsal else torch.cuda.memory_stats()
        dropped = 0 if tracer is None else tracer.recorder.dropped
    peaks = [stats.get(f"{kind}_bytes.all.peak", 0) for kind in ("requested", "allocated")]
    return Memory(samples, *peaks, dropped)


def sample(place: Place, step: int) -> Sample:
    """Now."""
    place.wait()
    if place.is_rehearsal:
        return Sample(step, resident_bytes())
    stats = torch.cuda.memory_stats()
    free, total = torch.cuda.mem_get_info()
    pinned = getattr(torch.cuda, "host_memory_stats", dict)()  # torch >= 2.7
    return Sample(
        step,
        resident_bytes(),
        stats["requested_bytes.all.current"],
        stats["allocated_bytes.all.current"],
        total - free,
        pinned.get("allocated_bytes.current", 0),
    )


if __name__ == "__main__":
    main()
