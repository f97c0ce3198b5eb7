"""A job that uses its last visible device; hands over what torch reports about it.

python -m benchmarks.gpu.jobs.which_device FOLDER
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

import torch

import trace_hooks as th
from benchmarks.gpu.children import hand_over


def main() -> None:
    folder = Path(sys.argv[1])
    tracer = th.start(folder / "runs", run="device")
    time.sleep(1.5)  # the thread of the hooks has written the rank's file by now
    initialised = torch.cuda.is_initialized()
    by_torch: dict[str, Any] = {
        "initialised_by_hooks": initialised,
        "name": "cpu",
        "uuid": "",
    }
    if torch.cuda.is_available():
        torch.cuda.set_device(torch.cuda.device_count() - 1)
        torch.ones(1, device="cuda")
        properties = torch.cuda.get_device_properties(torch.cuda.current_device())
        by_torch |= {"name": properties.name, "uuid": str(getattr(properties, "uuid", ""))}
        by_torch["visible"] = torch.cuda.device_count()
    for _ in range(3):
        with tracer.step():
            time.sleep(0.5)
    tracer.stop()
    hand_over(by_torch)


if __name__ == "__main__":
    main()
