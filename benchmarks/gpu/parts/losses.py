"""(e) Losses are bitwise the same with hooks on and off, with statistics, and with a watch.

Both models train 20 steps, in the same way each time: twice without hooks, then under each way of
recording, with kernels that give the same bits each time. Each training has a process of its own:
the first one of a process may differ from the next in its bits. If the two trainings without hooks
differ from each other, the comparison says nothing.
"""

from __future__ import annotations

from functools import partial

from benchmarks.gpu.children import run_job
from benchmarks.gpu.figures import Figure, Place
from benchmarks.gpu.jobs.losses import OFF
from benchmarks.gpu.training import WORKLOADS

WAYS = {
    "blocks": "level blocks",
    "layers": "level layers",
    "statistics": "statistics in every step",
    "watch": "attention of layer 0 watched in every step",
}
LIMIT_S = 60.0


def measure(place: Place) -> None:
    """For each model: two runs without hooks, then each way of recording against the first."""
    for name in ("small", "large"):
        place.attempt(WORKLOADS[name].name, partial(_compare, place, name))


def _compare(place: Place, name: str) -> None:
    title = WORKLOADS[name].name
    alone = _losses(place, name, OFF)
    noise = differing(alone, _losses(place, name, OFF))
    place.say(loss_figure(f"{title}: again without hooks", len(alone), noise, noise))
    for way, words in WAYS.items():
        differ = differing(alone, _losses(place, name, way))
        place.say(loss_figure(f"{title}: {words}", len(alone), differ, noise))


def _losses(place: Place, name: str, way: str) -> list[int]:
    """Bits of the losses; raises ValueError where the job does not end well."""
    ended = run_job("losses", (place.device, name, way, place.new_folder()), LIMIT_S)
    if ended.fault:
        raise ValueError(f"{WAYS.get(way, 'without hooks')}: {ended.fault}")
    losses: list[int] = ended.found
    return losses


def differing(alone: list[int], other: list[int]) -> int:
    """Losses that differ in any bit; those that one of both lacks differ."""
    same = sum(one == two for one, two in zip(alone, other, strict=False))
    return max(len(alone), len(other)) - same


def loss_figure(name: str, num_losses: int, differ: int, noise: int) -> Figure:
    """`noise`: losses that differ without hooks, too; then there is no verdict on the others."""
    unit = f"of {num_losses} losses differ"
    if noise:
        return Figure(name, differ, unit, note=f"not judged: {noise} differ without hooks, too")
    return Figure(name, differ, unit, holds=differ == 0)
