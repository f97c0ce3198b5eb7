"""What a device could do at most: FLOP/s by data type, bandwidth of its memory."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

_TF32 = re.compile(r"tf32|s1688", re.IGNORECASE)
"""In names of kernels that multiply float32 as tf32: of cuBLAS, and of CUTLASS for the instruction
m16n8k8, which of float32 takes tf32 only."""
_BY_DTYPE = {"float16": "half", "bfloat16": "half", "float32": "float32"}


@dataclass(frozen=True)
class Roofs:
    """1e12 FLOP/s by precision (half, tf32, float32, float8; `given`: of all of them), 1e9 B/s of
    the memory; None unknown. `device`: its name, empty unknown.
    """

    device: str
    tflops: Mapping[str, float | None]
    gb_per_s: float | None
    given: float | None = None

    def peak(self, precision: str) -> float | None:
        """1e12 FLOP/s at this precision."""
        return self.tflops.get(precision) if self.given is None else self.given


NO_ROOFS = Roofs("", {}, None)
"""Of a rank that left no file about itself."""


def roofs_of(
    row: Mapping[str, Any], peak_tflops: float | None = None, gb_per_s: float | None = None
) -> Roofs:
    """From a row of device_roofs; what is given replaces what the data sheet says."""
    known = {name: row[f"{name}_tflops"] for name in ("half", "tf32", "float32", "float8")}
    bandwidth = row["gb_per_s"] if gb_per_s is None else gb_per_s
    return Roofs(row["device"] or "", known, bandwidth, peak_tflops)


def precision_of(dtype: str, kernels: Iterable[str]) -> str:
    """Which peak applies to inputs of this type; empty where none does."""
    if dtype.startswith("float8"):
        return "float8"
    if dtype == "float32" and any(_TF32.search(name) for name in kernels):
        return "tf32"
    return _BY_DTYPE.get(dtype, "")
