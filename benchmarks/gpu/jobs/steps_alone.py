"""Steps without hooks in a separate process; hands over the wall time of one, ms.

python -m benchmarks.gpu.jobs.steps_alone cuda|cpu large|small

For tools that can only watch a process from its start, such as nsys.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from benchmarks.gpu.blocks import measured, steps_in
from benchmarks.gpu.children import hand_over
from benchmarks.gpu.figures import Place
from benchmarks.gpu.training import WORKLOADS, Training, warm_up

SECONDS = 4.0


def main() -> None:
    device, workload = sys.argv[1:]
    with tempfile.TemporaryDirectory() as folder:
        place = Place(device, Path(folder), print)
        training = Training(place, WORKLOADS[workload])
        warm_up(place, training.step)
        hand_over(measured(place, training.step, steps_in(place, training.step, SECONDS)).wall)


if __name__ == "__main__":
    main()
