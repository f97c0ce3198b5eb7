"""Lines of torchtitan.

    [rank0]:[titan] 2026-01-05 08:30:06,500 - root - INFO - step: 30  loss:  8.5000  grad_norm:
    2.7500  memory: 50.00GiB(62.50%)  tps: 11,500  tflops: 200.00  mfu: 20.25%

Source: MetricsProcessor.log of torchtitan/components/metrics.py; `tps` and `tflops` are of one
device.
"""

from __future__ import annotations

import re

from ingest.readers.logs.training.numbers import FLOAT, as_float
from ingest.readers.tables.logged_step import LoggedStep, logged_step

SIGNS = (b"  loss: ", b"mloss: ")
"""The second one behind a colour."""

_LINE = re.compile(rf"(?:^|[\s\]])step: *(\d{{1,15}}) +loss: *({FLOAT})((?: +\w{{1,30}}: .*)?)")
_FIELD = re.compile(rf"(\w{{1,30}}): *({FLOAT})")


def step_of(text: str) -> LoggedStep | None:
    """The step of a line; no length, which is the time since the line before."""
    line = _LINE.search(text)
    if line is None:
        return None
    fields = {name: as_float(value) for name, value in _FIELD.findall(line[3])}
    tflops = fields.get("tflops")
    return logged_step(
        int(line[1]),
        {
            "loss": as_float(line[2]),
            "grad_norm": fields.get("grad_norm"),
            "lr": fields.get("lr"),
            "tokens_per_s": fields.get("tps"),
            "flops_per_s": None if tflops is None else tflops * 1e12,
        },
    )
