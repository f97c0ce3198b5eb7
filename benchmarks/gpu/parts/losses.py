"""(e) Losses are bitwise the same with hooks on and off, with statistics, and with a watch.

Both models train 20 steps, in the same way each time: twice without hooks, then under each way of
recording, with kernels that give the same bits each time where torch has them. If the two runs
without hooks differ from each other, the comparison says nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import torch

from benchmarks.gpu.figures import Figure, Place
from benchmarks.gpu.training import (
    LARGE,
    SMALL,
    Training,
    Workload,
    compute_the_same_twice,
    hooked,
)

WATCH = {"id": "w", "what": "attention", "layers": [0], "every": 1}
WAYS: dict[str, dict[str, Any]] = {
    "level blocks": {"level": "blocks"},
    "level layers": {"level": "layers"},
    "statistics in every step": {"statistics": 1},
    "attention of layer 0 watched in every step": {"allow_content": True, "watches": [WATCH]},
}


def measure(place: Place) -> None:
    """For each model: two runs without hooks, then each way of recording against the first."""
    compute_the_same_twice()
    for workload in (SMALL, LARGE):
        alone = _losses(place, workload, None)
        again = _losses(place, workload, None)
        noise = differing(alone, again)
        place.say(loss_figure(f"{workload.name}: again without hooks", alone, noise, noise))
        for way, settings in WAYS.items():
            differ = differing(alone, _losses(place, workload, settings))
            place.say(loss_figure(f"{workload.name}: {way}", alone, differ, noise))


def differing(alone: torch.Tensor, other: torch.Tensor) -> int:
    """Losses that differ in any bit."""
    return int((alone.view(torch.int32) != other.view(torch.int32)).sum())


def loss_figure(name: str, alone: torch.Tensor, differ: int, noise: int) -> Figure:
    """`noise`: losses that differ without hooks, too; then there is no verdict on the others."""
    if noise:
        note = f"not judged: {noise} differ without hooks, too"
        return Figure(name, differ, f"of {len(alone)} losses differ", note=note)
    return Figure(name, differ, f"of {len(alone)} losses differ", holds=differ == 0)


def _losses(place: Place, workload: Workload, settings: dict[str, Any] | None) -> torch.Tensor:
    """Losses of the first steps, as float32 bits."""
    training = Training(place, workload)
    folder = place.folder / f"losses-{len(list(place.folder.iterdir()))}"
    folder.mkdir()
    with ExitStack() as opened:
        step: Callable[[], torch.Tensor] = training.step
        if settings is not None:
            step = opened.enter_context(hooked(training, folder, **settings))
        losses = [step() for _ in range(place.sized(20, 4))]
        place.wait()
        return torch.stack(losses).float().cpu()
