"""FLOPs and bytes of convolutions. Their output has no recorded shape: it follows from stride,
padding and dilation, which torch.profiler writes since PyTorch 2.1; without them it is unknown.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from diagnosis.roofline.calls import MOST_ELEMENTS, Call, Shape, Tensor
from diagnosis.roofline.products import Rule, Work, like, sizes


@dataclass(frozen=True)
class _Forward:
    """A rule: positions of its arguments. `transposed`: of the flag, where there is one."""

    padding: int
    stride: int
    dilation: int | None
    bias: int | None = None
    transposed: int | None = None

    def __call__(self, call: Call) -> Work | None:
        data, weight = call.tensor(0), call.tensor(1)
        if data is None or weight is None or len(data.shape) != len(weight.shape):
            return None
        if self.transposed is not None and call.text(self.transposed) != "False":
            return None
        shape = self._output(call, data.shape, weight.shape)
        if shape is None:
            return None
        out = like(data, shape)
        bias = None if self.bias is None else call.tensor(self.bias)
        # of each output: the channels of its group times the size of the kernel
        flops = 2.0 * out.numel * math.prod(weight.shape[1:])
        return Work(flops, sizes(data, weight, out, bias))

    def _output(self, call: Call, data: Shape, weight: Shape) -> Shape | None:
        num = len(data) - 2
        padding, stride = call.integers(self.padding), call.integers(self.stride)
        dilation = [1] if self.dilation is None else call.integers(self.dilation)
        if padding is None or stride is None or dilation is None or num < 1:
            return None
        spread = [
            values * num if len(values) == 1 else values for values in (padding, stride, dilation)
        ]
        if any(len(values) != num for values in spread) or min(spread[1]) < 1:
            return None
        sides = [
            (size + 2 * pad - gap * (kernel - 1) - 1) // step + 1
            for size, kernel, pad, step, gap in zip(data[2:], weight[2:], *spread, strict=True)
        ]
        shape = (data[0], weight[0], *sides)
        return None if min(sides) < 0 or math.prod(shape) > MOST_ELEMENTS else shape


def _backward(call: Call) -> Work | None:
    """Gradients of the input and of the weights, each as much as the forward, where wanted."""
    gradient, data, weight = (call.tensor(place) for place in range(3))
    if gradient is None or data is None or weight is None:
        return None
    wanted = call.text(10)
    is_transposed = call.text(7)
    if not wanted.startswith("[") or is_transposed not in ("True", "False"):
        return None
    of_data, of_weight = ([*wanted.strip("[]").split(", "), "", ""][place] for place in range(2))
    out = data if is_transposed == "True" else gradient
    one = 2.0 * out.numel * math.prod(weight.shape[1:])
    times = (of_data == "True") + (of_weight == "True")
    written: list[Tensor | None] = [
        data if of_data == "True" else None,
        weight if of_weight == "True" else None,
    ]
    return Work(times * one, sizes(gradient, data, weight, *written))


CONVOLUTIONS: dict[str, Rule] = {
    "aten::cudnn_convolution": _Forward(padding=2, stride=3, dilation=4),
    "aten::miopen_convolution": _Forward(padding=3, stride=4, dilation=5, bias=2),
    "aten::mkldnn_convolution": _Forward(padding=3, stride=4, dilation=5, bias=2),
    "aten::_slow_conv2d_forward": _Forward(padding=5, stride=4, dilation=None, bias=3),
    "aten::_conv_depthwise2d": _Forward(padding=5, stride=4, dilation=6, bias=3),
    "aten::convolution_overrideable": _Forward(
        padding=4, stride=3, dilation=5, bias=2, transposed=6
    ),
    "aten::convolution_backward": _backward,
}
