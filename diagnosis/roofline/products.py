"""FLOPs and bytes of products of matrices."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from diagnosis.roofline.calls import Call, Shape, Tensor


class Work(NamedTuple):
    """Of one call. `flops`: None where they are not counted; `num_bytes`: None unknown."""

    flops: float | None
    num_bytes: float | None


Rule = Callable[[Call], Work | None]
"""None: the call does not look as expected."""


def sizes(*tensors: Tensor | None) -> float | None:
    """Bytes of these tensors together, those that are none left out; None where one is unknown."""
    known = [tensor.num_bytes for tensor in tensors if tensor is not None]
    total = 0.0
    for num_bytes in known:
        if num_bytes is None:
            return None
        total += num_bytes
    return total


def like(tensor: Tensor, shape: Shape) -> Tensor:
    """A tensor of this shape and the data type of another."""
    return Tensor(shape, tensor.dtype, tensor.element_bytes)


def _product(num_dims: int, first: int = 0, bias: int | None = None) -> Rule:
    """Of matrices (3 dimensions: of many) at `first` and behind it; `bias`: what is added."""

    def work(call: Call) -> Work | None:
        left, right = call.tensor(first), call.tensor(first + 1)
        if left is None or right is None or len(left.shape) != num_dims:
            return None
        if len(right.shape) != num_dims or left.shape[-1] != right.shape[-2]:
            return None
        if left.shape[:-2] != right.shape[:-2]:
            return None
        out = like(left, (*left.shape[:-1], right.shape[-1]))
        added = None if bias is None else call.tensor(bias)
        flops = 2.0 * out.numel * left.shape[-1]
        return Work(flops, sizes(left, right, out, added))

    return work


def _linear(call: Call) -> Work | None:
    left, weight, bias = (call.tensor(place) for place in range(3))
    if left is None or weight is None or len(weight.shape) != 2 or not left.shape:
        return None
    if left.shape[-1] != weight.shape[1]:
        return None
    out = like(left, (*left.shape[:-1], weight.shape[0]))
    return Work(2.0 * out.numel * weight.shape[1], sizes(left, weight, out, bias))


def _scaled(call: Call) -> Work | None:
    """With inputs of 8 bits; the type of the output is not recorded: at least one byte."""
    found = _product(2)(call)
    left, right = call.tensor(0), call.tensor(1)
    if found is None or left is None or right is None:
        return None
    out = Tensor((left.shape[0], right.shape[1]), "", 1)
    return Work(found.flops, sizes(left, right, out))


PRODUCTS: dict[str, Rule] = {
    "aten::mm": _product(2),
    "aten::addmm": _product(2, first=1, bias=0),
    "aten::_addmm_activation": _product(2, first=1, bias=0),
    "aten::bmm": _product(3),
    "aten::baddbmm": _product(3, first=1, bias=0),
    "aten::linear": _linear,
    "aten::_scaled_mm": _scaled,
}
