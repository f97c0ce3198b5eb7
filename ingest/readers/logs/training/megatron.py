"""Lines of Megatron-LM and of Megatron-DeepSpeed.

    [2025-04-13 23:41:20] iteration       20/    1000 | consumed samples:          320 | elapsed
    time per iteration (ms): 820.7 | learning rate: 4.000000E-05 | global batch size:    16 |
    lm loss: 1.072453E+01 | grad norm: 3.874 | number of skipped iterations:   0 | ...

Source: training_log of megatron/training/training.py.
"""

from __future__ import annotations

import re

from ingest.readers.logs.training.numbers import FLOAT, as_float
from ingest.readers.tables.training_steps import LoggedStep, logged_step, ns_of_ms

SIGNS = (b"elapsed time per iteration (ms)",)

_LINE = re.compile(r"(?:^|\s)iteration +(\d{1,15})/ *(?:\d{1,15}|infinity) \|(.*)")
_FIELD = re.compile(rf" *([A-Za-z][^:|]{{0,60}}?): *({FLOAT}) *(?=\||$)")
_LOSSES = ("lm loss", "loss", "reduced_train_loss")
_DEVICE_TFLOPS = ("throughput per GPU (TFLOP/s/GPU)", "TFLOPs")


def step_of(text: str) -> LoggedStep | None:
    """The step of a line; tokens only where the line names the length of sequences."""
    line = _LINE.search(text)
    if line is None:
        return None
    fields = {name: as_float(value) for name, value in _FIELD.findall(line[2])}
    tflops = next((fields[name] for name in _DEVICE_TFLOPS if name in fields), None)
    dur_ms = fields.get("elapsed time per iteration (ms)")
    return logged_step(
        int(line[1]),
        {
            "dur_ns": None if dur_ms is None else ns_of_ms(dur_ms),
            "loss": next((fields[name] for name in _LOSSES if name in fields), None),
            "grad_norm": fields.get("grad norm"),
            "lr": fields.get("learning rate"),
            "tokens": _product(fields.get("global batch size"), fields.get("actual seqlen")),
            "samples": fields.get("global batch size"),
            "flops_per_s": None if tflops is None else tflops * 1e12,
        },
    )


def _product(samples: float | None, length: float | None) -> float | None:
    return None if samples is None or length is None else samples * length
