"""Losses of the first steps of one process; hands over their bits.

python -m benchmarks.gpu.jobs.losses cuda|cpu large|small off|WAY FOLDER

Each way has a process of its own: within one process, the second training has other bits than the
first, with hooks or without, although seeds, data and kernels are fixed.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import torch

from benchmarks.gpu.children import hand_over
from benchmarks.gpu.figures import Place
from benchmarks.gpu.training import WORKLOADS, Training, compute_the_same_twice, hooked

OFF = "off"
WATCH = {"id": "w", "what": "attention", "layers": [0], "every": 1}
WAYS: dict[str, dict[str, Any]] = {
    "blocks": {"level": "blocks"},
    "layers": {"level": "layers"},
    "statistics": {"statistics": 1},
    "watch": {"allow_content": True, "watches": [WATCH]},
}
STEPS = 20


def main() -> None:
    device, workload, way, folder = sys.argv[1:]
    compute_the_same_twice()
    place = Place(device, Path(folder), print)
    training = Training(place, WORKLOADS[workload])
    with ExitStack() as opened:
        step: Callable[[], torch.Tensor] = training.step
        if way != OFF:
            step = opened.enter_context(hooked(training, place.folder, **WAYS[way]))
        losses = [step() for _ in range(place.sized(STEPS, 4))]
        place.wait()
    hand_over(torch.stack(losses).float().cpu().view(torch.int32).tolist())


if __name__ == "__main__":
    main()
