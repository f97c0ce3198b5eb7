"""Lines of DeepSpeed's engines.

    [2026-01-05 08:30:17,500] [INFO] [logging.py:96:log_dist] [Rank 0] step=10, skipped=2,
    lr=[0.0001], mom=[(0.9, 0.999)]
    [2026-01-05 08:30:17,501] [INFO] [timer.py:215:stop] epoch=0/micro_step=10/global_step=10,
    RunningAvgSamplesPerSec=220.5, CurrSamplesPerSec=222.5, MemAllocated=0.1GB, ...
    steps: 100 loss: 2.5000 iter time (s): 0.250 samples/sec: 64.000

The last one is of the pipeline engine. The others have no loss. Sources: _report_progress of
deepspeed/runtime/engine.py, train_batch of deepspeed/runtime/pipe/engine.py, ThroughputTimer.
"""

from __future__ import annotations

import re

from ingest.readers.logs.training.numbers import FLOAT, as_float
from ingest.readers.tables.logged_step import LoggedStep, logged_step, ns_of_ms

SIGNS = (b", skipped=", b"RunningAvgSamplesPerSec=", b"iter time (s):")

_PROGRESS = re.compile(rf"\[Rank \d{{1,7}}\] step=(\d{{1,15}}), skipped=\d+, lr=\[({FLOAT})?")
_SPEED = re.compile(
    r"(?:global_step=|\d{1,9}/)(\d{1,15}), RunningAvgSamplesPerSec=[^,]{1,40}, "
    rf"CurrSamplesPerSec=({FLOAT})"
)
_PIPELINE = re.compile(
    rf"steps: (\d{{1,15}}) loss: ({FLOAT}) .{{0,200}}?iter time \(s\): ({FLOAT})"
)


def step_of(text: str) -> LoggedStep | None:
    """The step of a line."""
    if (line := _PROGRESS.search(text)) is not None:
        return logged_step(int(line[1]), {"lr": as_float(line[2]) if line[2] else None})
    if (line := _SPEED.search(text)) is not None:
        return logged_step(int(line[1]), {})
    if (line := _PIPELINE.search(text)) is not None:
        dur_ns = ns_of_ms(as_float(line[3]) * 1e3)
        return logged_step(int(line[1]), {"loss": as_float(line[2]), "dur_ns": dur_ns})
    return None
