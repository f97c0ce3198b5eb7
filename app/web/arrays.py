"""Typed arrays with a JSON header in one binary answer; assets/lib/arrays.mjs reads it.

    uint32 little-endian: bytes of the header | header, UTF-8 JSON, padded with spaces | buffers

The header is `{"arrays": {name: {"dtype", "length", "offset"}}, ...meta}`; offsets count from the
first byte after the header, each a multiple of 8, so that a typed array can view it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np

DTYPES = ("uint8", "uint16", "uint32", "int8", "int16", "int32", "float32", "float64")
MEDIA_TYPE = "application/x-rankscope-arrays"
_ALIGNMENT = 8


def pack_arrays(arrays: Mapping[str, np.ndarray], meta: Mapping[str, Any]) -> bytes:
    """One answer from one-dimensional arrays (DTYPES) and JSON-able values; raises ValueError."""
    described: dict[str, dict[str, object]] = {}
    buffers: list[bytes] = []
    offset = 0
    for name, array in arrays.items():
        if array.dtype.name not in DTYPES or array.ndim != 1:
            raise ValueError(f"array {name} is {array.dtype} x {array.shape}; give one of {DTYPES}")
        content = array.astype(array.dtype.newbyteorder("<"), copy=False).tobytes()
        described[name] = {"dtype": array.dtype.name, "length": len(array), "offset": offset}
        buffers.append(content + b"\0" * (-len(content) % _ALIGNMENT))
        offset += len(buffers[-1])
    header = json.dumps({"arrays": described, **meta}, allow_nan=False).encode()
    header += b" " * (-(4 + len(header)) % _ALIGNMENT)
    return b"".join([len(header).to_bytes(4, "little"), header, *buffers])
