"""FLOPs and bytes of scaled dot-product attention: two products forward, five backward.

What a causal mask hides is not counted: kernels skip it. Source of the counts: Dao,
arXiv:2307.08691, sections 3.1 and 3.2. Unknown are windows of keys, and sequences packed into one,
whose lengths are not recorded.
"""

from __future__ import annotations

from dataclasses import dataclass

from diagnosis.roofline.calls import Call, Tensor
from diagnosis.roofline.products import Rule, Work, like, sizes

_FORWARD, _BACKWARD = (1, 1), (3, 2)
"""Products as wide as a query, and as a value."""
_CAUSAL = {"True": True, "False": False, "0": False, "1": True, "2": True}
"""A flag, or the kind of mask of memory-efficient attention: none, causal from the upper left, from
the lower right: the same where there are as many queries as keys."""


@dataclass(frozen=True)
class _Attention:
    """A rule. Positions: of the queries, before keys and values; of the flag `causal`; of the
    dimension of heads, 1 or 2; of what makes the work unknown where it is given.
    """

    causal: int
    heads: int
    query: int = 0
    unless: tuple[int, ...] = ()
    backward: bool = False

    def __call__(self, call: Call) -> Work | None:
        q, k, v = (call.tensor(self.query + place) for place in range(3))
        if q is None or k is None or v is None or not self._is_whole(call):
            return None
        if {len(tensor.shape) for tensor in (q, k, v)} != {4}:
            return None
        rows, columns = q.shape[3 - self.heads], k.shape[3 - self.heads]
        pairs = _pairs(rows, columns, _CAUSAL.get(call.text(self.causal)))
        if pairs is None:
            return None
        of_query, of_value = _BACKWARD if self.backward else _FORWARD
        width = of_query * q.shape[3] + of_value * v.shape[3]
        flops = 2.0 * q.shape[0] * q.shape[self.heads] * pairs * width
        return Work(flops, _moved(q, k, v, self.backward))

    def _is_whole(self, call: Call) -> bool:
        return all(
            call.tensor(place) is None and call.text(place) in ("", "-1") for place in self.unless
        )


def _moved(q: Tensor, k: Tensor, v: Tensor, backward: bool) -> float | None:
    out = like(q, (*q.shape[:3], v.shape[3]))
    if backward:  # reads q, k, v, the output and its gradient; writes three gradients
        return sizes(q, k, v, out, out, q, k, v)
    return sizes(q, k, v, out)


def _pairs(rows: int, columns: int, is_causal: bool | None) -> float | None:
    """Pairs of a query and a key that count; None where it is not known which."""
    if is_causal is None or (is_causal and rows != columns):
        return None
    return rows * (rows + 1) / 2 if is_causal else float(rows * columns)


_ON_CPU = "aten::_scaled_dot_product_flash_attention_for_cpu"
ATTENTION: dict[str, Rule] = {
    "aten::_flash_attention_forward": _Attention(causal=8, heads=2, unless=(3, 4, 11, 12)),
    "aten::_flash_attention_backward": _Attention(
        causal=11, heads=2, query=1, unless=(6, 7, 15, 16), backward=True
    ),
    "aten::_efficient_attention_forward": _Attention(causal=9, heads=2, unless=(4, 5, 13)),
    "aten::_efficient_attention_backward": _Attention(
        causal=14, heads=2, query=1, unless=(6, 7, 18), backward=True
    ),
    "aten::_scaled_dot_product_cudnn_attention": _Attention(causal=6, heads=1),
    "aten::_scaled_dot_product_cudnn_attention_backward": _Attention(
        causal=14, heads=1, query=1, backward=True
    ),
    "aten::_cudnn_attention_forward": _Attention(causal=10, heads=1, unless=(4, 5)),
    "aten::_cudnn_attention_backward": _Attention(
        causal=14, heads=1, query=1, unless=(9, 10), backward=True
    ),
    _ON_CPU: _Attention(causal=4, heads=1),
    f"{_ON_CPU}_backward": _Attention(causal=7, heads=1, query=1, backward=True),
}
