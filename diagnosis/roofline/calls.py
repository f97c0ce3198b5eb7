"""A call of an operation: its name and the shapes of its inputs, as the args of spans have them.

Format: ingest/readers/kineto/operations.py writes it from what torch.profiler records.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import Any

Shape = tuple[int, ...]

_DTYPES = {
    "float": ("float32", 4),
    "double": ("float64", 8),
    "c10::half": ("float16", 2),
    "c10::bfloat16": ("bfloat16", 2),
    "long int": ("int64", 8),
    "long": ("int64", 8),
    "int": ("int32", 4),
    "short": ("int16", 2),
    "signed char": ("int8", 1),
    "unsigned char": ("uint8", 1),
    "bool": ("bool", 1),
    "c10::float8_e4m3fn": ("float8_e4m3fn", 1),
    "c10::float8_e4m3fnuz": ("float8_e4m3fnuz", 1),
    "c10::float8_e5m2": ("float8_e5m2", 1),
    "c10::float8_e5m2fnuz": ("float8_e5m2fnuz", 1),
}
"""Type as torch.profiler names it, in small letters -> torch's name and bytes of an element."""
MOST_ELEMENTS = 2**60
"""Of one tensor; more is damage."""


@dataclass(frozen=True)
class Tensor:
    """One input. `dtype`: torch's name, empty unknown; `num_bytes`: None unknown."""

    shape: Shape
    dtype: str
    element_bytes: int | None

    @property
    def numel(self) -> int:
        """Elements."""
        return math.prod(self.shape)

    @property
    def num_bytes(self) -> int | None:
        """Size of the whole tensor."""
        return None if self.element_bytes is None else self.numel * self.element_bytes


@dataclass(frozen=True)
class Call:
    """`tensors`: by position, None where the input is none, or a list of them. `inputs`: what else
    it was given, as text by position, where that decides the work.
    """

    op: str
    tensors: tuple[Tensor | None, ...]
    inputs: tuple[str, ...]

    def tensor(self, place: int) -> Tensor | None:
        """The input at this position."""
        return self.tensors[place] if place < len(self.tensors) else None

    def text(self, place: int) -> str:
        """What else was given at this position, empty unknown."""
        return self.inputs[place] if place < len(self.inputs) else ""

    def integers(self, place: int) -> list[int] | None:
        """A list such as [1, 1] at this position."""
        try:
            values = json.loads(self.text(place))
        except ValueError:
            return None
        is_list = isinstance(values, list) and all(type(value) is int for value in values)
        return values if is_list else None

    @property
    def dtype(self) -> str:
        """Of its first tensor, empty unknown."""
        return next((tensor.dtype for tensor in self.tensors if tensor is not None), "")

    @property
    def shapes_text(self) -> str:
        """Shapes of its tensors: "4096 x 4096, 4096 x 1024"."""
        shapes = (tensor.shape for tensor in self.tensors if tensor is not None)
        return ", ".join(" x ".join(map(str, shape)) or "scalar" for shape in shapes)


def parse_call(text: str) -> Call | None:
    """From the JSON of a span; None where it is something else."""
    try:
        known = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(known, dict) or not isinstance(known.get("op"), str):
        return None
    dims, types, inputs = (_list(known.get(name)) for name in ("dims", "types", "inputs"))
    types += [""] * (len(dims) - len(types))
    tensors = tuple(_tensor(shape, str(kind)) for shape, kind in zip(dims, types, strict=False))
    return Call(known["op"], tensors, tuple(map(str, inputs)))


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _tensor(shape: Any, kind: str) -> Tensor | None:
    """A number of no dimensions reads like an input that is none: it moves next to nothing."""
    is_shape = isinstance(shape, list) and all(type(size) is int and size >= 0 for size in shape)
    if not is_shape or not shape or math.prod(shape) > MOST_ELEMENTS:
        return None
    dtype, element_bytes = _DTYPES.get(kind.lower(), ("", None))
    return Tensor(tuple(shape), dtype, element_bytes)
