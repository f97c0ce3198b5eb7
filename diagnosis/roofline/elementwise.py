"""Bytes of operations that are bound by memory: elementwise ones, norms, softmax, reductions.

Their FLOPs are not counted: a device does them in less time than it takes to read the values.
"""

from __future__ import annotations

from collections.abc import Iterable

from diagnosis.roofline.calls import Call, Shape, Tensor
from diagnosis.roofline.products import Rule, Work, sizes


def _broadcast(shapes: Iterable[Shape]) -> Shape | None:
    """Shape of the result of tensors of these; None where they do not fit."""
    sides: list[int] = []
    for shape in shapes:
        padded = [1] * (len(shape) - len(sides)) + sides
        offset = len(padded) - len(shape)
        for place, size in enumerate(shape):
            mine = padded[offset + place]
            if 1 not in (mine, size) and mine != size:
                return None
            padded[offset + place] = size if mine == 1 else mine
        sides = padded
    return tuple(sides)


def _elementwise(num_inputs: int) -> Rule:
    """Reads so many inputs, writes what they give together; what follows are outputs."""

    def work(call: Call) -> Work | None:
        read = [tensor for place in range(num_inputs) if (tensor := call.tensor(place)) is not None]
        shape = _broadcast(tensor.shape for tensor in read)
        if not read or shape is None:
            return None
        widths = [tensor.element_bytes for tensor in read if tensor.element_bytes is not None]
        out = Tensor(shape, "", max(widths, default=None))
        return Work(None, sizes(*read, out))

    return work


def _moves(read: Iterable[int], written: Iterable[int]) -> Rule:
    """Inputs that are read, and inputs as large as which something is written."""
    places = (*read, *written)

    def work(call: Call) -> Work | None:
        if call.tensor(places[0]) is None:
            return None
        return Work(None, sizes(*(call.tensor(place) for place in places)))

    return work


_ONE = (
    "relu gelu silu sigmoid tanh exp log sqrt rsqrt neg abs sin cos reciprocal clamp clamp_min "
    "clone pow _softmax _log_softmax"
)
_TWO = (
    "add sub mul div maximum minimum gelu_backward silu_backward sigmoid_backward tanh_backward "
    "threshold_backward _softmax_backward_data _log_softmax_backward_data"
)
_NORM, _NORM_BACKWARD = _moves((0, 1, 2), (0,)), _moves((0, 1), (1,))
_REDUCTION = _moves((0,), ())

ELEMENTWISE: dict[str, Rule] = (
    {f"aten::{name}": _elementwise(1) for name in _ONE.split()}
    | {f"aten::{name}": _elementwise(2) for name in _TWO.split()}
    | {f"aten::{name}": _elementwise(3) for name in ("addcmul", "addcdiv")}
    | {
        f"aten::{name}_": _moves((0,), (0,))
        for name in ("relu", "sqrt", "neg", "clamp", "clamp_min", "silu")
    }
    | {f"aten::{name}_": _moves((0, 1), (0,)) for name in ("add", "sub", "mul", "div")}
    | {f"aten::{name}_": _moves((0, 1, 2), (0,)) for name in ("addcmul", "addcdiv")}
    | {
        f"aten::{name}": _REDUCTION
        for name in ("sum", "mean", "amax", "amin", "linalg_vector_norm")
    }
    | {
        "aten::copy_": _moves((1,), (0,)),
        "aten::fill_": _moves((), (0,)),
        "aten::zero_": _moves((), (0,)),
        "aten::native_layer_norm": _moves((0, 2, 3), (0,)),
        "aten::native_layer_norm_backward": _moves((0, 1, 5), (1,)),
        "aten::_fused_rms_norm": _moves((0, 2), (0,)),
        "aten::native_batch_norm": _NORM,
        "aten::cudnn_batch_norm": _NORM,
        "aten::miopen_batch_norm": _NORM,
        "aten::native_batch_norm_backward": _NORM_BACKWARD,
        "aten::cudnn_batch_norm_backward": _NORM_BACKWARD,
        "aten::miopen_batch_norm_backward": _NORM_BACKWARD,
    }
)
