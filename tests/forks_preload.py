"""What the process that forks jobs imports (tests.forks): all that a rank would import by itself.

What is loaded is then left out of every garbage collection of the forks.
"""

from __future__ import annotations

import gc

import sample_traces.jobs.train_3d  # noqa: F401
import trace_hooks.active_tracer
import trace_hooks.recording.segment_writer  # noqa: F401
from trace_hooks.source_names import SOURCES
from trace_hooks.sources import load_source

for name in SOURCES:
    load_source(name)
gc.collect()
gc.freeze()
