"""Lines of Megatron-LM and of Megatron-DeepSpeed.

    [2026-01-05 08:30:20] iteration       20/    1000 | consumed samples:          320 | elapsed
    time per iteration (ms): 800.5 | learning rate: 4.000000E-05 | global batch size:    16 |
    lm loss: 1.050000E+01 | grad norm: 3.250 | number of skipped iterations:   0 | ...

Older versions give seconds, and no colons behind some names.
Source: training_log of megatron/training/training.py.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from ingest.readers.logs.training.numbers import FLOAT, as_float
from ingest.readers.tables.logged_step import LoggedStep, logged_step, ns_of_ms

SIGNS = (b"elapsed time per iteration (",)

_LINE = re.compile(r"(?:^|\s)iteration +(\d{1,15})/ *(?:\d{1,15}|infinity) \|(.*)")
_FIELD = re.compile(rf"([A-Za-z][^:]{{0,60}}?)(?:: *| +)({FLOAT})")
_LOSSES = ("lm loss", "loss", "reduced_train_loss")
_BATCHES = ("global batch size", "gloabl batch size")
_LENGTHS = ("actual seqlen", "actual seq length")
_DEVICE_TFLOPS = ("throughput per GPU (TFLOP/s/GPU)", "TFLOPs")


def step_of(text: str) -> LoggedStep | None:
    """The step of a line; tokens only where the line names the length of sequences."""
    line = _LINE.search(text)
    if line is None:
        return None
    parts = (_FIELD.fullmatch(part.strip()) for part in line[2].split("|"))
    fields = {part[1]: as_float(part[2]) for part in parts if part is not None}
    tflops, samples = _first(fields, _DEVICE_TFLOPS), _first(fields, _BATCHES)
    dur_ms, dur_s = (fields.get(f"elapsed time per iteration ({unit})") for unit in ("ms", "s"))
    dur_ms = dur_s * 1e3 if dur_s is not None else dur_ms
    return logged_step(
        int(line[1]),
        {
            "dur_ns": None if dur_ms is None else ns_of_ms(dur_ms),
            "loss": _first(fields, _LOSSES),
            "grad_norm": fields.get("grad norm"),
            "lr": fields.get("learning rate"),
            "tokens": _product(samples, _first(fields, _LENGTHS)),
            "samples": samples,
            "flops_per_s": None if tflops is None else tflops * 1e12,
        },
    )


def _first(fields: Mapping[str, float], names: tuple[str, ...]) -> float | None:
    return next((fields[name] for name in names if name in fields), None)


def _product(samples: float | None, length: float | None) -> float | None:
    return None if samples is None or length is None else samples * length
