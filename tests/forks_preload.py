"""What the process that forks jobs imports (tests.forks): all that a rank would import by itself.

pandas, too: pyarrow imports it, where it is installed, when a rank writes its first rows. What is
loaded is then left out of every garbage collection of the forks, which stay the smaller for it.
"""

from __future__ import annotations

import gc

import pyarrow as pa

import sample_traces.jobs.train_3d  # noqa: F401
import trace_hooks.segments
import trace_hooks.tracer  # noqa: F401
from trace_hooks.sources import SOURCES, load_source

for name in SOURCES:
    load_source(name)
pa.array([0])
gc.collect()
gc.freeze()
