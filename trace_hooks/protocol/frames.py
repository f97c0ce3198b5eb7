"""One captured tensor (or part of it) of one step: its numbers, and their form on the wire.

A frame on the wire is RSF1, the length of a JSON header (uint32, little-endian), the header padded
with spaces so that the numbers begin at a multiple of 8, and the numbers. They are float16 or uint8
with a scale: value = zero + scale * stored. That is 2 bytes or 1 a value, where MegaScope's JSON
takes 23. Ids of tokens and their losses, of which there are few, are float32. Pure: the server
reads frames without torch.
"""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import numpy.typing as npt

from trace_hooks.schema import FRAME_KINDS, UNKNOWN

MAGIC = b"RSF1"
PROMPT_KINDS = ("prompt_token", "prompt_attention")
"""Frames that are shown and never stored, see trace_hooks/sources/prompting/prompt_frames.py."""
MAX_VALUES = 4_096 * 4_096
"""Values of one frame at most: every row of one head over 4,096 tokens."""

MAX_HEADER = 1 << 20
MAX_FRAME_BYTES = 8 + MAX_HEADER + 2 * MAX_VALUES
MAX_NAME = 1_000
MAX_DIMS = 4

ITEM_BYTES = {"float16": 2, "uint8": 1, "float32": 4}
_ALIGN = 8
_INT64 = 1 << 63


@dataclass(frozen=True, eq=False)
class Frame:
    """One row of the table `frames`; see its columns in trace_hooks/schema.

    `ts_ns`: Unix ns on the rank's clock. `data`: the stored numbers, little-endian, row-major.
    Attempt and rank are UNKNOWN on the rank itself; the server knows them from its connection.
    """

    step: int
    ts_ns: int
    watch: str
    what: str
    layer: int
    name: str
    shape: tuple[int, ...]
    dtype: str
    data: bytes
    scale: float = 1.0
    zero: float = 0.0
    head: int = UNKNOWN
    shard: str = ""
    sample: int = UNKNOWN
    row_begin: int = 0
    row_every: int = 1
    microbatch: int = UNKNOWN
    chunk: int = UNKNOWN
    labels: str | None = None
    cost_ns: int = 0
    attempt: int = UNKNOWN
    rank: int = UNKNOWN

    def __post_init__(self) -> None:
        _check(self)

    def values(self) -> npt.NDArray[np.float32]:
        """The values, in their shape."""
        stored = np.frombuffer(self.data, dtype=np.dtype(self.dtype).newbyteorder("<"))
        values = stored.astype(np.float64) * self.scale + self.zero
        return values.astype(np.float32).reshape(self.shape)

    def header(self) -> dict[str, Any]:
        """Everything but the numbers, as JSON has it."""
        return {name: getattr(self, name) for name in _HEADER}

    def encode(self) -> bytes:
        """The frame's bytes on the wire; see the module's docstring."""
        text = json.dumps(self.header(), separators=(",", ":"), allow_nan=False).encode()
        text += b" " * (-(len(MAGIC) + 4 + len(text)) % _ALIGN)
        return b"".join((MAGIC, struct.pack("<I", len(text)), text, self.data))


_HEADER = tuple(field.name for field in fields(Frame) if field.name != "data")


def decode(encoded: bytes) -> Frame:
    """Frame of what `encode` made; raises ValueError, one sentence, for anything else."""
    if len(encoded) > MAX_FRAME_BYTES:
        raise ValueError(f"a frame has {len(encoded)} bytes; {MAX_FRAME_BYTES} is the most")
    if len(encoded) < 8 or encoded[:4] != MAGIC:
        raise ValueError("this is not a frame: it does not begin with RSF1")
    (size,) = struct.unpack_from("<I", encoded, 4)
    if size > MAX_HEADER or 8 + size > len(encoded):
        raise ValueError(f"a frame's header claims {size} bytes, which are not there")
    try:
        header = json.loads(bytes(encoded[8 : 8 + size]), parse_constant=_no_constant)
    except (ValueError, RecursionError):
        raise ValueError("a frame's header is not JSON") from None
    if not isinstance(header, dict) or set(header) != set(_HEADER):
        raise ValueError("a frame's header lacks members, or has others than a frame")
    shape = header.pop("shape")
    if not isinstance(shape, list):
        raise ValueError("a frame's shape is not a list of sizes")
    return Frame(**header, shape=tuple(shape), data=bytes(encoded[8 + size :]))


def _no_constant(text: str) -> float:
    raise ValueError(text)


def _check(frame: Frame) -> None:
    """Raise ValueError where a field of a frame is invalid."""
    for name in _INTEGERS:
        value = getattr(frame, name)
        if type(value) is not int or not -_INT64 <= value < _INT64:
            raise ValueError(f"a frame's {name} is not a whole number of 64 bits")
    for name in ("watch", "what", "name", "shard", "dtype"):
        if not isinstance(getattr(frame, name), str) or len(getattr(frame, name)) > MAX_NAME:
            raise ValueError(f"a frame's {name} is not text of up to {MAX_NAME} characters")
    for name in ("scale", "zero"):
        value = getattr(frame, name)
        if type(value) not in (int, float) or abs(value) > 1e300 or not math.isfinite(value):
            raise ValueError(f"a frame's {name} is not a finite number")
    if frame.what not in FRAME_KINDS and frame.what not in PROMPT_KINDS:
        raise ValueError(f"a frame's what is not one of {', '.join(FRAME_KINDS + PROMPT_KINDS)}")
    labels = frame.labels
    if labels is not None and (not isinstance(labels, str) or len(labels) > MAX_HEADER // 2):
        raise ValueError("a frame's labels are not text, or too long")
    _check_numbers(frame)


_INTEGERS = (
    "attempt",
    "rank",
    "step",
    "ts_ns",
    "microbatch",
    "chunk",
    "layer",
    "head",
    "sample",
    "row_begin",
    "row_every",
    "cost_ns",
)


def _check_numbers(frame: Frame) -> None:
    shape = frame.shape
    sizes = all(type(size) is int and 1 <= size <= MAX_VALUES for size in shape)
    if not sizes or not 1 <= len(shape) <= MAX_DIMS or math.prod(shape) > MAX_VALUES:
        raise ValueError(f"a frame's shape is not 1 to {MAX_DIMS} sizes of {MAX_VALUES} values")
    if frame.dtype not in ITEM_BYTES:
        raise ValueError(f"a frame's dtype is not one of {', '.join(ITEM_BYTES)}")
    needed = math.prod(shape) * ITEM_BYTES[frame.dtype]
    if len(frame.data) != needed:
        raise ValueError(f"a frame has {len(frame.data)} bytes of numbers, its shape {needed}")


@dataclass(frozen=True, eq=False)
class Stored:
    """Numbers as a frame holds them: value = zero + scale * stored."""

    dtype: str
    scale: float
    zero: float
    data: bytes

    def columns(self) -> dict[str, Any]:
        """As a frame and the table `frames` name them."""
        return dict(vars(self))


def _halved(values: npt.NDArray[np.float32]) -> npt.NDArray[np.float16]:
    return values.astype("<f2")


def stored(
    values: npt.NDArray[np.float32],
    dtype: str = "float16",
    halved: Callable[[npt.NDArray[np.float32]], npt.NDArray[np.float16]] = _halved,
) -> Stored:
    """Numbers of a frame for its values, any shape; `halved` rounds to float16.

    float16 is scaled by a power of two that brings the greatest finite size below 2^15, so that
    neither gradients of 1e-9 vanish nor activations of 1e5 overflow; the relative error is at most
    2^-11 down to 2^-29 of the greatest. uint8 divides the range of the values into 255 steps; where
    one of them is not finite the frame is float16. float32 stays as it is.
    """
    if dtype == "float32":
        return Stored(dtype, 1.0, 0.0, values.astype("<f4").tobytes())
    finite = np.isfinite(values)
    every = bool(finite.all())
    if dtype == "uint8" and every:
        return _in_bytes(values)
    size = np.abs(values if every else values[finite])
    peak = float(size.max()) if size.size else 0.0
    exponent = math.frexp(peak)[1] - 15 if peak else 0
    numbers = halved(np.ldexp(values, -exponent))
    return Stored("float16", math.ldexp(1.0, exponent), 0.0, numbers.tobytes())


def _in_bytes(values: npt.NDArray[np.float32]) -> Stored:
    low, high = float(values.min()), float(values.max())
    scale = (high - low) / 255 or 1.0
    numbers = np.rint((values.astype(np.float64) - low) / scale).astype(np.uint8)
    return Stored("uint8", scale, low, numbers.tobytes())
