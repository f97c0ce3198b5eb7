"""(g) Kernel capture on demand: two captures of a few steps each, while training continues.

The small model trains under the hooks at their default level. The part requests a capture with the
dashboard's command. For each requested step, the file in kernels/ of the run folder must have the
kernels that this step launched, about as many as torch.profiler sees in a step of the same model
without hooks. The timeline (spans of kind kernel) must have all kernels of the file. Losses must be
bitwise those of a job without hooks.

Costs. `a step ... against before`: wall and CPU time of training's thread, medians of blocks before
the first capture, after it and after the second (the profiler of CUDA may stay attached to a
process that used it once); the blocks before are divided into two halves, whose difference is the
noise. The hooks' own mark says what a captured step costs: no step is captured without a request.
The first capture also starts the profiler's library, which takes a second or more.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from typing import Any

import torch

import trace_hooks as th
from benchmarks.gpu.figures import Figure, Place
from benchmarks.gpu.profiled import Profile, profiled, read_file
from benchmarks.gpu.spread import spread
from benchmarks.gpu.training import SMALL, Training, compute_the_same_twice, rows_of
from trace_hooks.sources.profiling.kernel_capture import MARK

CAPTURED = 3
"""Steps of one capture."""

BLOCKS, PATIENCE_S = 6, 60.0


def measure(place: Place) -> None:
    """One job with hooks, then one without over as many steps."""
    compute_the_same_twice()
    reference = _reference(place)
    losses, folder, times = _hooked_job(place)
    place.say(losses_figure(losses, _alone(place, len(losses))))
    (run,) = [path for path in (place.folder / "runs").iterdir() if path.is_dir()]
    files = sorted(run.glob("kernels/*.json.gz"))
    place.say(Figure("files of captures", len(files), "of 2", holds=len(files) == 2))
    captured = [read_file(path) for path in files]
    place.say(counts_figure([count for one in captured for count in in_steps(one)], reference))
    place.say(_spans(place, folder, captured))
    for mark in rows_of(folder, "marks").to_pylist():
        if mark["kind"] == MARK and mark["args"]:
            for figure in mark_figures(json.loads(mark["args"])):
                place.say(figure)
    for figure in time_figures(times):
        place.say(figure)


def _hooked_job(place: Place) -> tuple[list[torch.Tensor], Path, dict[str, list[Times]]]:
    """Losses of all steps, the folder of runs, and the times of blocks in each phase.

    The capture is asked for as the command of the dashboard does.
    """
    training, folder = Training(place, SMALL), place.folder / "runs"
    tracer = th.start(folder, run="capture", model=training.model)
    losses: list[torch.Tensor] = []

    def step() -> None:
        with tracer.step():
            losses.append(training.step())

    times = {"before": _blocks(place, step)}
    for phase in ("after one capture", "after two"):
        _capture(tracer, step)
        times[phase] = _blocks(place, step)
    place.wait()
    tracer.stop()
    return losses, folder, times


def _capture(tracer: th.Tracer, step: Callable[[], None]) -> None:
    """Ask for one, and train until its rows are handed over."""
    source: Any = next(one for one in tracer.sources if one.name == "kernel_capture")
    source.ask({"steps": CAPTURED, "from": tracer.context.rank_state.step + 2})
    until_s = time.monotonic() + PATIENCE_S
    while source.is_busy and time.monotonic() < until_s:
        step()


Times = tuple[float, float]
"""Of a step, wall and CPU time of training's thread, ms."""


def _blocks(place: Place, step: Callable[[], None]) -> list[Times]:
    """Times of steps, block by block; each block waits for the device once, at its end."""
    steps = place.sized(100, 3)
    for _ in range(steps):
        step()
    place.wait()
    times = []
    for _ in range(BLOCKS):
        wall_ns, cpu_ns = time.perf_counter_ns(), time.thread_time_ns()
        for _ in range(steps):
            step()
        cpu_ns = time.thread_time_ns() - cpu_ns
        place.wait()
        times.append(((time.perf_counter_ns() - wall_ns) / steps / 1e6, cpu_ns / steps / 1e6))
    return times


def _alone(place: Place, steps: int) -> list[torch.Tensor]:
    """Losses without hooks."""
    training = Training(place, SMALL)
    return [training.step() for _ in range(steps)]


def _reference(place: Place) -> int:
    """Kernels (operators in a rehearsal) of one step without hooks."""
    training = Training(place, SMALL)
    for _ in range(3):
        training.step()
    place.wait()
    return len(profiled(place, training.step).kernels)


def losses_figure(hooked: Sequence[torch.Tensor], alone: Sequence[torch.Tensor]) -> Figure:
    """Whether training went on as without hooks."""
    one, other = (torch.stack(list(x)).float().cpu().view(torch.int32) for x in (hooked, alone))
    differ = int((one != other).sum())
    return Figure(
        "losses that differ from a job without hooks", differ, f"of {len(one)}", holds=differ == 0
    )


def in_steps(found: Profile) -> list[int]:
    """Kernels that each captured step launched, in order of the steps."""
    return [sum(one.is_kernel for one in found.launched_in(*step)) for step in found.steps]


def counts_figure(counts: list[int], reference: int) -> Figure:
    """Every step of both captures has as many as one without hooks."""
    least = 0.9 * reference
    return Figure(
        "kernels in the captured step that has fewest",
        min(counts, default=0),
        f"of {reference}",
        len(counts) == 2 * CAPTURED and min(counts) >= max(1.0, least),
        f"by step: {counts}; at least nine tenths of a step without hooks",
    )


def _spans(place: Place, folder: Path, captured: list[Profile]) -> Figure:
    """What of the files is on the timeline."""
    kind = "host" if place.is_rehearsal else "kernel"
    spans = rows_of(folder, "spans").to_pylist()
    shown = sum(s["kind"] in (kind, "other_comm") and s["mode"] == "imported" for s in spans)
    there = sum(len(one.kernels) for one in captured)
    return Figure("of them on the timeline", shown, f"of {there}", holds=shown >= there > 0)


def mark_figures(cost_args: dict[str, Any]) -> list[Figure]:
    """What the hooks say that one capture cost training's thread, CPU time."""
    name = f"capture from step {cost_args['first_step']}"
    before = cost_args["step_before_ms"]
    note = "" if before is None else f"the step before it: {before} ms"
    return [
        Figure(f"{name}: steps", cost_args["steps"], holds=cost_args["steps"] == CAPTURED),
        Figure(f"{name}: a captured step", float(cost_args["step_ms"]), "ms", note=note),
        Figure(f"{name}: to start and stop", float(cost_args["start_and_stop_ms"]), "ms"),
    ]


def time_figures(times: dict[str, list[Times]]) -> list[Figure]:
    """Medians of blocks of each phase; the later ones against those before the first capture."""
    results = []
    for column, name in enumerate(("wall time", "CPU time")):
        before = [block[column] for block in times["before"]]
        half = len(before) // 2
        noise = median(before[half:]) - median(before[:half])
        results.append(
            Figure(f"a step, {name}", median(before), "ms", note=spread(before).in_words("ms"))
        )
        results.append(Figure(f"the same, second half against first: noise, {name}", noise, "ms"))
        for phase in [phase for phase in times if phase != "before"]:
            later = [block[column] for block in times[phase]]
            more = median(later) - median(before)
            note = spread(later).in_words("ms")
            results.append(Figure(f"a step {phase} against before, {name}", more, "ms", note=note))
    return results
