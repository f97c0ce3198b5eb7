"""(l) Loads of experts: waits, exact counts, losses, CUDA graphs, and what they cost.

A small model of 4 layers with 16 experts trains under the hooks, its routers given to them. The
profiler's trace must have no wait for the device that the same steps lack without hooks. The counts
that the hooks wrote must be those of the choices that the model itself kept. Losses must be bitwise
those without hooks, also where forward and backward are captured in a CUDA graph, inside of a step.
The choices inside of a graph are not counted; the hooks must say so in a mark.

Cost: blocks of steps with routers, without hooks and with hooks alone alternate as in part (b).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import cycle
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import torch

import trace_hooks as th
from benchmarks.gpu.blocks import OFF, Block, measured, ms_more, percent_more, steps_in
from benchmarks.gpu.children import run_job
from benchmarks.gpu.figures import Figure, Place
from benchmarks.gpu.mixture import EXPERTS, LAYERS, MixtureTraining
from benchmarks.gpu.parts.losses import differing, loss_figure
from benchmarks.gpu.profiled import counts, profiled_kernels
from benchmarks.gpu.training import rows_of, settle, warm_up
from trace_hooks.sources.experts.missed import CAPTURED

STEPS, SECONDS, BLOCK_S, LIMIT_S = 5, 24.0, 0.5, 60.0
PAUSE_S = 0.1
"""After a step: no more than a few copies to the host may be under way, or they are dropped."""
ALONE, ROUTERS = "hooks alone", "hooks and routers"


def measure(place: Place) -> None:
    """Each check by itself."""
    place.attempt("waits", partial(_waits, place))
    place.attempt("counts", partial(_counts, place))
    for what in ("eager", "graph"):
        place.attempt(what, partial(_losses, place, what))
    place.attempt("cost", partial(_cost, place))


@contextmanager
def _recording(training: MixtureTraining, folder: Path, routers: bool = True) -> Iterator[Any]:
    tracer = th.start(folder, run="experts", model=training.model)
    for router in training.routers if routers else ():
        tracer.router(router, EXPERTS)
    try:
        yield tracer
    finally:
        tracer.stop()


def _stepping(training: MixtureTraining, tracer: Any) -> Callable[[], object]:
    def step() -> None:
        with tracer.step():
            training.step()

    return step


def _waits(place: Place) -> None:
    training = MixtureTraining(place)
    warm_up(place, training.step)
    alone = counts(profiled_kernels(place, training.step, STEPS))
    for name, has_routers in ((ALONE, False), (ROUTERS, True)):
        with _recording(training, place.new_folder(), has_routers) as tracer:
            step = _stepping(training, tracer)
            settle(place, tracer, step)
            hooked = counts(profiled_kernels(place, step, STEPS))
        waits = hooked.waits - alone.waits
        place.say_of_gpu(
            Figure(
                f"{name}: waits for the device",
                waits,
                f"more in {STEPS} steps",
                holds=waits <= 0,
                note=f"{alone.waits} without hooks; {hooked.copies - alone.copies} copies and "
                f"{hooked.kernels - alone.kernels} kernels more",
            )
        )


def _counts(place: Place) -> None:
    """Every count of every layer and step."""
    training, folder = MixtureTraining(place), place.new_folder()
    with _recording(training, folder) as tracer:
        training.keep_choices()
        for _ in range(20):
            _stepping(training, tracer)()
            sleep(PAUSE_S)
    written = sorted(
        rows_of(folder, "expert_load").to_pylist(), key=lambda r: (r["step"], r["layer"])
    )
    own = [
        chosen.flatten().bincount(minlength=EXPERTS).tolist()
        for layers in training.choices
        for chosen in layers
    ]
    same = sum(row["tokens"] == tokens for row, tokens in zip(written, own, strict=False))
    place.say(
        Figure(
            "loads equal to the model's own count",
            same,
            f"of {len(own)}",
            holds=same == len(own) == len(written) == 20 * LAYERS,
        )
    )


def _losses(place: Place, what: str) -> None:
    alone, again = (_bits(place, what, "none")[0] for _ in range(2))
    hooked, folder = _bits(place, what, "hooks")
    noise = differing(alone, again)
    place.say(
        loss_figure(f"{what}: losses with routers", len(alone), differing(alone, hooked), noise)
    )
    if what == "graph" and not place.is_rehearsal:
        texts = [mark["text"] or "" for mark in rows_of(folder, "marks").to_pylist()]
        said = [text for text in texts if CAPTURED in text]
        place.say_of_gpu(
            Figure("graph: a mark says that they are not counted", len(said), "", bool(said))
        )


def _bits(place: Place, what: str, hooks: str) -> tuple[list[int], Path]:
    """Of the losses, and the folder of runs; raises ValueError where the job does not end well."""
    folder = place.new_folder()
    ended = run_job("experts", (what, place.device, folder, hooks), LIMIT_S)
    if ended.fault:
        raise ValueError(f"{what}, {hooks}: {ended.fault}")
    return ended.found, folder / "runs"


def _cost(place: Place) -> None:
    training = MixtureTraining(place)
    warm_up(place, training.step)
    number = steps_in(place, training.step, BLOCK_S)
    until_s = monotonic() + (0 if place.is_rehearsal else SECONDS)
    turns: list[tuple[str, Block]] = [(OFF, measured(place, training.step, number))]
    for turn, way in enumerate(cycle((ALONE, ROUTERS))):
        if turn >= 2 and monotonic() > until_s:
            break
        with _recording(training, place.new_folder(), way == ROUTERS) as tracer:
            step = _stepping(training, tracer)
            settle(place, tracer, step, 1.0)
            turns.append((way, measured(place, step, number)))
        warm_up(place, training.step, 0.0)
        turns.append((OFF, measured(place, training.step, number)))
    for way in (ALONE, ROUTERS):
        gpu = percent_more(turns, way, lambda block: block.gpu or block.wall)
        cpu = ms_more(turns, way, lambda block: block.cpu)
        blocks = f"blocks of {number} steps"
        place.say_of_gpu(
            Figure(f"{way}: GPU time", gpu.median, "% more", note=gpu.in_words("%", blocks))
        )
        place.say_of_gpu(
            Figure(
                f"{way}: CPU time", cpu.median, "ms a step more", note=cpu.in_words("ms", blocks)
            )
        )
    wall = torch.tensor([block.wall for way, block in turns if way == OFF]).median().item()
    place.say_of_gpu(Figure("a step without hooks, wall time", wall, "ms"))
