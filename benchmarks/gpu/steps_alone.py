"""Steps without hooks in a process of their own: python -m benchmarks.gpu.steps_alone cuda large.

Prints ms a step as JSON. For what can only watch a process from its start, such as nsys.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.gpu.blocks import measured
from benchmarks.gpu.figures import Place
from benchmarks.gpu.training import WORKLOADS, Training, warm_up

SECONDS = 4.0


def main() -> int:
    device, workload = sys.argv[1:]
    with tempfile.TemporaryDirectory() as folder:
        place = Place(device, Path(folder), print)
        training = Training(place, WORKLOADS[workload])
        warm_up(place, training.step)
        number = steps_in(place, training, SECONDS)
        block = measured(place, training.step, number)
    print(json.dumps({"gpu_ms": block.gpu, "wall_ms": block.wall, "steps": number}))
    return 0


def steps_in(place: Place, training: Training, seconds: float) -> int:
    """How many steps of a warm model fit into this time; a few at least, 200 at most."""
    if place.is_rehearsal:
        return 2
    number = 5
    begun_s = time.monotonic()
    for _ in range(number):
        training.step()
    place.wait()
    return min(200, max(4, round(seconds * number / (time.monotonic() - begun_s))))


if __name__ == "__main__":
    sys.exit(main())
