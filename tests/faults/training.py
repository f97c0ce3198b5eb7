"""A traced job of one process that trains until somebody ends it."""

from __future__ import annotations

TRAIN = """
import time
from pathlib import Path
import trace_hooks as th
tracer, step = th.start(run="job"), 0
while not Path("stop").exists():
    with tracer.step():
        with tracer.span("work"):
            time.sleep(0.01)
    step += 1
tracer.stop()
print(step)
"""
"""Ends when there is a file `stop` in its folder, and prints how many steps it did."""
