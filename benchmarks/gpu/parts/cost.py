"""(b) What recording costs a step: GPU time, wall time and CPU time.

Blocks of steps alternate: without hooks, one way of recording, without hooks, the next way, ...
Each block is compared with the mean of the two blocks without hooks around it; the figure is the
median over its blocks, with quartiles. `nothing (null)` is one more block without hooks: its
difference from the others is the resolution of the measurement, and smaller costs cannot be
determined. GPU time is the time between two CUDA events of the benchmark's own around the whole
block; wall time ends when the device is idle.

The large model keeps the device busy, so what the host does for the hooks is hidden as long as it
stays ahead: its GPU and wall time are what training loses. The aim there is 0.15 % at the default
level (layers). The small model waits for the host, so every microsecond of the host makes the step
longer. CPU time is that of all threads of the process. In the large model the host spins while the
device's queue is full, which hides the CPU time of the hooks; a note therefore has the CPU time
that the hooks report themselves, on all threads.

torch.profiler and a capture of kernels come last and have a null of their own: CUPTI may stay
attached to the process once they have run; `after torch.profiler` says what that costs steps
without any recording. A capture includes its start and its stop, torch.profiler does not. nsys can
only watch a process from its start: two processes without it run before and after one under it.
"""

from __future__ import annotations

import gc
import shutil
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from itertools import cycle
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile

from benchmarks.gpu.blocks import (
    OFF,
    Block,
    Turns,
    measured,
    meets,
    ms_more,
    percent_more,
    steps_in,
)
from benchmarks.gpu.children import run_job
from benchmarks.gpu.figures import Figure, NotHere, Place
from benchmarks.gpu.spread import Spread
from benchmarks.gpu.training import (
    WORKLOADS,
    Step,
    Training,
    logged_step,
    recording,
    settle,
    warm_up,
)
from trace_hooks.protocol.capture_request import COMMAND, MAX_STEPS

AIM_PERCENT = 0.15
SECONDS = {"large": 80.0, "small": 30.0}
"""For the ways of recording; torch.profiler and captures get a quarter of it more."""
BLOCK_S = 1.0
WARM_S = 1.0
NSYS_S = 60.0

WATCH = {"id": "w", "what": "attention", "layers": [0], "heads": [0], "every": 1}
NULL, DEFAULT = "nothing (null)", "level layers (default)"
PROFILER, CAPTURE = "torch.profiler", "capture of kernels"

Way = Callable[[Place, Training, int], AbstractContextManager[Step]]


@contextmanager
def _nothing(place: Place, training: Training, num_steps: int) -> Iterator[Step]:
    warm_up(place, training.step, WARM_S)
    yield training.step


@contextmanager
def _hooks(place: Place, training: Training, num_steps: int, **settings: Any) -> Iterator[Step]:
    with recording(training, place.new_folder(), **settings) as tracer:
        step = partial(logged_step, training, tracer)
        settle(place, tracer, step, WARM_S)
        yield step


@contextmanager
def _profiler(place: Place, training: Training, num_steps: int) -> Iterator[Step]:
    activities = [ProfilerActivity.CPU]
    if not place.is_rehearsal:
        activities.append(ProfilerActivity.CUDA)
    with profile(activities=activities):
        warm_up(place, training.step, WARM_S / 4)
        yield training.step


@contextmanager
def _capture(place: Place, training: Training, num_steps: int) -> Iterator[Step]:
    with recording(training, place.new_folder()) as tracer:
        step = partial(logged_step, training, tracer)
        settle(place, tracer, step, WARM_S)
        request = {"type": "command", "id": "gpu", "name": COMMAND, "args": {"steps": num_steps}}
        answer = tracer.context.live.commands.answer(request)
        if answer is None or not answer["ok"]:
            raise ValueError(f"no kernels are captured: {answer}")
        yield step


WAYS: dict[str, Way] = {
    NULL: _nothing,
    DEFAULT: partial(_hooks, level="layers"),
    "level blocks": partial(_hooks, level="blocks"),
    "level steps": partial(_hooks, level="steps"),
    "statistics, steps between": partial(_hooks, statistics=1_000_000),
    "statistics in every step": partial(_hooks, statistics=1),
    "attention of a head watched in every step": partial(
        _hooks, allow_content=True, watches=[WATCH]
    ),
    PROFILER: _profiler,
    CAPTURE: _capture,
}
RECORDING = tuple(name for name in WAYS if name not in (PROFILER, CAPTURE, NULL, DEFAULT))
ORDER = tuple(name for way in RECORDING for name in (NULL, DEFAULT, way))
"""The null and the default level come oftenest: the aim is about them."""


@dataclass(frozen=True)
class Recorded:
    """What one model cost under the ways of recording."""

    training: Training
    num_steps: int
    turns: Turns


def measure(place: Place) -> None:
    """The ways of recording with both models, then torch.profiler and captures with both: nothing
    of CUPTI may be in the process while the former are measured. nsys in processes of its own.
    """
    by_name: dict[str, Recorded] = {}
    for name, seconds in SECONDS.items():
        place.attempt(WORKLOADS[name].name, partial(_recording, place, name, seconds, by_name))
    for name, recorded in by_name.items():
        title = f"{WORKLOADS[name].name}: {PROFILER}"
        place.attempt(title, partial(_profiling, place, name, SECONDS[name] / 4, recorded))
    by_name.clear()
    gc.collect()
    torch.cuda.empty_cache()  # does nothing where CUDA is not in use
    place.attempt("nsys", partial(_nsys, place))


def _recording(place: Place, name: str, seconds: float, found: dict[str, Recorded]) -> None:
    training = Training(place, WORKLOADS[name])
    warm_up(place, training.step, 3 * WARM_S)  # clocks of a device rise when it gets to work
    number = steps_in(place, training.step, BLOCK_S)
    order = tuple(dict.fromkeys(ORDER)) if place.is_rehearsal else ORDER
    turns = alternating(place, training, order, number, seconds)
    found[name] = Recorded(training, number, turns)
    for way in dict.fromkeys(order):
        _say(place, name, turns, way, number)


def _profiling(place: Place, name: str, seconds: float, recorded: Recorded) -> None:
    number, order = min(recorded.num_steps, MAX_STEPS[COMMAND]), (PROFILER, CAPTURE, NULL)
    turns = alternating(place, recorded.training, order, number, seconds)
    for way in order:
        _say(place, name, turns, way, number, " after torch.profiler" if way == NULL else "")
    _say_left_behind(place, name, recorded.turns, turns)


def alternating(
    place: Place, training: Training, order: Sequence[str], num_steps: int, seconds: float
) -> Turns:
    """Blocks of these ways, each with blocks of nothing around it: one round, and more in time."""
    until_s = time.monotonic() + (0 if place.is_rehearsal else seconds)
    turns = [(OFF, _off(place, training, num_steps))]
    for number, way in enumerate(cycle(order)):
        if number >= len(order) and time.monotonic() > until_s:
            break
        with WAYS[way](place, training, num_steps) as step:
            block = measured(place, step, num_steps)
        turns += [(way, block), (OFF, _off(place, training, num_steps))]
    return turns


def _off(place: Place, training: Training, num_steps: int) -> Block:
    warm_up(place, training.step, 0.0)
    return measured(place, training.step, num_steps)


def _say(place: Place, name: str, turns: Turns, way: str, num_steps: int, more: str = "") -> None:
    title, blocks = f"{WORKLOADS[name].name}: {way}{more}", f"blocks of {num_steps} steps"
    is_aimed_at = name == "large" and way == DEFAULT and not place.is_rehearsal
    for what, value in (("GPU time", _gpu), ("wall time", _wall)):
        own, null = (percent_more(turns, one, value) for one in (way, NULL))
        figure = Figure(f"{title}: {what}", own.median, "% more", note=own.in_words("%", blocks))
        place.say_of_gpu(_against_aim(figure, own, null) if is_aimed_at else figure)
    cpu = ms_more(turns, way, lambda block: block.cpu)
    account_ms = statistics.median(block.own for one, block in turns if one == way)
    place.say_of_gpu(
        Figure(
            f"{title}: CPU time",
            cpu.median,
            "ms a step more",
            note=f"{cpu.in_words('ms', blocks)}; reported by the hooks {account_ms:.3f} ms",
        )
    )


def _against_aim(figure: Figure, own: Spread, null: Spread) -> Figure:
    holds = meets(own, null, AIM_PERCENT)
    remark = "; the null is spread too widely to judge it" if holds is None else ""
    return replace(figure, holds=holds, note=f"{figure.note}; aim: {AIM_PERCENT} % at most{remark}")


def _gpu(block: Block) -> float:
    return block.wall if block.gpu is None else block.gpu  # a rehearsal has no other time


def _wall(block: Block) -> float:
    return block.wall


def _say_left_behind(place: Place, name: str, before: Turns, after: Turns) -> None:
    """Steps without anything: before torch.profiler was ever used, and after."""
    first, later = (
        statistics.median(_wall(block) for way, block in turns if way == OFF)
        for turns in (before, after[2:])  # the first block comes before the first profile
    )
    place.say_of_gpu(
        Figure(
            f"{WORKLOADS[name].name}: without hooks after torch.profiler: wall time",
            100 * (later / first - 1),
            "% more",
            note=f"{first:.2f} ms a step before; minutes lie between, so clocks may have moved",
        )
    )


def _nsys(place: Place) -> None:
    path = shutil.which("nsys")
    if path is None:
        raise NotHere("nsys is not installed")
    report = place.new_folder() / "report"
    watch = [
        path,
        "profile",
        "--trace=cuda",
        "--sample=none",
        "--cpuctxsw=none",
        f"--output={report}",
    ]
    for name, workload in WORKLOADS.items():
        before, own, after = (_alone(place, name, how) for how in ([], watch, []))
        report.with_suffix(".nsys-rep").unlink(missing_ok=True)
        around = (before + after) / 2
        place.say_of_gpu(
            Figure(
                f"{workload.name}: nsys, trace of CUDA: wall time",
                100 * (own / around - 1),
                "% more",
                note=f"{own:.2f} ms a step; without it {before:.2f} and {after:.2f} ms",
            )
        )


def _alone(place: Place, name: str, under: Sequence[str]) -> float:
    """Wall ms of a step in a process of its own; raises NotHere where it does not end well."""
    ended = run_job("steps_alone", (place.device, name), NSYS_S, under=under)
    if ended.fault or ended.found is None:
        raise NotHere(ended.fault or "it handed nothing over")
    wall_ms: float = ended.found
    return wall_ms
