"""Attention weights, which fused kernels never store: recomputed from Q and K.

The arguments of a kernel (`AttentionCall`) determine the weights of chosen heads and rows, in
float32: `logits`, `weights`, `summary`. `CALLS` calls its listeners before every call of attention.

Sees: torch.nn.functional.scaled_dot_product_attention under any kernel, also where transformers
and nn.MultiheadAttention call it; flash_attn.flash_attn_func and flex_attention where they are
called as attributes of their modules after a listener was added.
Misses: calls inside compiled regions, nested and sparse tensors, flex_attention with a score_mod or
under torch.compile (as it mostly runs), keys spread over ranks (context parallelism). With dropout
the weights are those before dropout, since nothing here may draw a random number.
Shapes: B batch, H query heads of this rank, G heads of the keys (GQA: G divides H), S query rows,
T keys, D head size, R sampled rows.
"""

from __future__ import annotations

import contextlib
import functools
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.overrides import has_torch_function

from trace_hooks.recording.guard import guarded
from trace_hooks.sources.patching import Patches

MAX_SAMPLES = 4
"""Most sequences of a batch that `summary` samples."""

is_compiling = torch.compiler.is_compiling


@dataclass(frozen=True, eq=False)
class AttentionCall:
    """Arguments of one call of attention. `scale`: None is 1 / sqrt(D).

    `attn_mask`: bool (True takes part) or added to the scaled logits, broadcast to (B, H, S, T).
    `is_causal`: row i sees the keys 0 to i + `causal_offset`: torch aligns at the top left (0),
    flash attention at the bottom right (T - S).
    """

    query_BHSD: Tensor
    key_BGTD: Tensor
    value_BGTD: Tensor | None = None
    attn_mask: Tensor | None = None
    is_causal: bool = False
    scale: float | None = None
    causal_offset: int = 0

    @property
    def num_heads(self) -> int:
        """Query heads, of this rank."""
        return int(self.query_BHSD.shape[1])

    @property
    def num_key_heads(self) -> int:
        """Heads of keys and values, of this rank; query heads share them evenly."""
        return int(self.key_BGTD.shape[1])

    @property
    def num_rows(self) -> int:
        """Query rows."""
        return int(self.query_BHSD.shape[2])

    @property
    def num_keys(self) -> int:
        """Columns of the weights."""
        return int(self.key_BGTD.shape[2])

    @property
    def num_samples(self) -> int:
        """Sequences of the batch."""
        return int(self.query_BHSD.shape[0])

    def key_head(self, head: int) -> int:
        """Head of the keys that a query head uses."""
        return head * self.num_key_heads // self.num_heads


def logits(call: AttentionCall, heads: Sequence[int], rows: slice, sample: int) -> Tensor:
    """Scaled logits before the softmax: (H chosen, R, T), float32; -inf where masked.

    `heads` count from 0 on this rank, `rows` are query rows, `sample` the sequence of the batch.
    """
    query_BHSD, key_BGTD = call.query_BHSD.detach(), call.key_BGTD.detach()
    with torch.no_grad(), torch.autocast(query_BHSD.device.type, enabled=False):
        query_HRD = _of_heads(query_BHSD[sample, :, rows], heads).float()
        key_HTD = _of_heads(key_BGTD[sample], [call.key_head(head) for head in heads]).float()
        scale = query_BHSD.shape[-1] ** -0.5 if call.scale is None else call.scale
        logits_HRT = (query_HRD * scale) @ key_HTD.transpose(-2, -1)
        return _masked(call, logits_HRT, list(heads), rows, sample)


def _of_heads(tensor_HND: Tensor, heads: Sequence[int]) -> Tensor:
    """Chosen heads, one after the other, each as often as it is named. A list as an index would be
    copied to the device, and the host would wait for that.
    """
    different = list(dict.fromkeys(heads))
    first, last = different[0], different[-1]
    each = len(heads) // len(different)
    if list(heads) != [head for head in range(first, last + 1) for _ in range(each)]:
        return torch.stack([tensor_HND[head] for head in heads])
    chosen = tensor_HND[first : last + 1]
    return chosen if each == 1 else chosen.unsqueeze(1).expand(-1, each, -1, -1).flatten(0, 1)


def _masked(
    call: AttentionCall, logits_HRT: Tensor, heads: list[int], rows: slice, sample: int
) -> Tensor:
    """The logits, masked in place."""
    if call.attn_mask is not None:
        full = (call.num_samples, call.num_heads, call.num_rows, call.num_keys)
        mask_HRT = _of_heads(call.attn_mask.detach().expand(full)[sample, :, rows], heads)
        if mask_HRT.dtype == torch.bool:
            logits_HRT.masked_fill_(~mask_HRT, -torch.inf)
        else:
            logits_HRT += mask_HRT
    if call.is_causal:
        first, _, every = rows.indices(call.num_rows)
        _hide_later(logits_HRT, first + call.causal_offset, every)
    return logits_HRT


def _hide_later(logits_HRT: Tensor, first: int, every: int) -> None:
    """-inf in columns after `first` in the first row, `every` more in each row that follows."""
    num_rows, num_keys = logits_HRT.shape[-2:]
    device = logits_HRT.device
    if every == 1:  # several times as fast as a mask; also hides what is not finite there
        later_RT = torch.full((num_rows, num_keys), -torch.inf, device=device).triu_(first + 1)
        logits_HRT.tril_(first).add_(later_RT)
        return
    last_R = first + every * torch.arange(num_rows, device=device)
    column_T = torch.arange(num_keys, device=device)
    logits_HRT.masked_fill_(column_T > last_R[:, None], -torch.inf)


def weights(call: AttentionCall, heads: Sequence[int], rows: slice, sample: int) -> Tensor:
    """Attention weights: (H chosen, R, T), float32; 0 in rows that are masked altogether."""
    return _softmax(call, logits(call, heads, rows, sample))


def _softmax(call: AttentionCall, logits_HRT: Tensor) -> Tensor:
    weights_HRT = logits_HRT.softmax(-1)
    if call.attn_mask is not None or call.causal_offset < 0:
        hidden_HR1 = logits_HRT.amax(-1, keepdim=True) == -torch.inf
        weights_HRT.masked_fill_(hidden_HR1, 0.0)
    return weights_HRT


def summary(call: AttentionCall, max_rows: int) -> tuple[Tensor, Tensor]:
    """Greatest logit of the positions not masked, and mean entropy of the weights in nats.

    Two tensors (H,), float32, on the device of the call, over at most `max_rows` rows spread evenly
    over the sequence, of up to MAX_SAMPLES sequences; `summary_rows` says how many. Rows that are
    masked altogether have no entropy.
    """
    heads = range(call.num_heads)
    peaks, sums, counts = [], [], []
    for sample, rows in _summary_rows(call, max_rows):
        logits_HRT = logits(call, heads, rows, sample)
        row_peak_HR = logits_HRT.amax(-1)
        peaks.append(row_peak_HR.amax(-1))
        sums.append(torch.special.entr(_softmax(call, logits_HRT)).sum((-2, -1)))
        counts.append((row_peak_HR != -torch.inf).sum(-1))
    entropy_H = torch.stack(sums).sum(0) / torch.stack(counts).sum(0)
    return torch.stack(peaks).amax(0), entropy_H


def summary_rows(call: AttentionCall, max_rows: int) -> int:
    """Number of rows of each head that `summary` samples."""
    return sum(len(range(call.num_rows)[rows]) for _, rows in _summary_rows(call, max_rows))


def _summary_rows(call: AttentionCall, max_rows: int) -> Iterator[tuple[int, slice]]:
    """(sequence, its rows); the last row, which sees most, is among them."""
    samples = range(min(call.num_samples, MAX_SAMPLES, max_rows))
    every = -(-call.num_rows // max(1, max_rows // max(1, len(samples))))
    for sample in samples:
        yield sample, slice((call.num_rows - 1) % every, None, every)


class AttentionCalls:
    """Calls listeners before every call of attention; patches nothing while there are none.

    Use the shared instance, `CALLS`: two instances would wrap each other's wrappers. A model that
    was compiled without listeners is compiled again once there is one.
    """

    def __init__(self) -> None:
        self._listeners: tuple[Callable[[AttentionCall], object], ...] = ()
        self.change: Callable[[AttentionCall, Any, int], Any] | None = None
        """Returns a changed output for (call, output, dim of its heads), or None; must be
        guarded."""
        self._patches = Patches()

    def listen(self, callback: Callable[[AttentionCall], object]) -> None:
        """Call `callback` before each call, on its thread; it must be guarded."""
        if not self._listeners:
            self._install()
        self._listeners = (*self._listeners, callback)

    def unlisten(self, callback: Callable[[AttentionCall], object]) -> None:
        """Stop calling `callback`."""
        self._listeners = tuple(listener for listener in self._listeners if listener != callback)
        if not self._listeners:
            self._patches.restore()

    def _install(self) -> None:
        self._wrap(torch.nn.functional, "scaled_dot_product_attention", _scaled_dot_product)
        flash = sys.modules.get("flash_attn")
        if flash is not None:
            self._wrap(flash, "flash_attn_func", _flash)
        flex = sys.modules.get("torch.nn.attention.flex_attention")
        if flex is not None:
            self._wrap(flex, "flex_attention", _flex)

    def _wrap(self, owner: Any, name: str, read: Callable[..., AttentionCall | None]) -> None:
        def make(original: Callable[..., Any]) -> Callable[..., Any]:
            @functools.wraps(original)
            def attention(*args: Any, **kwargs: Any) -> Any:
                if not self._listeners or is_compiling():
                    return original(*args, **kwargs)
                call = self._notify(read, args, kwargs)
                if not has_torch_function((*args, *kwargs.values())):
                    return self._changed(read, call, original(*args, **kwargs))
                with _in_place(owner, name, attention, original):
                    output = original(*args, **kwargs)
                return self._changed(read, call, output)

            return attention

        self._patches.replace(owner, name, make)

    def _notify(
        self, read: Callable[..., AttentionCall | None], args: Any, kwargs: dict[str, Any]
    ) -> AttentionCall | None:
        call = _read(read, args, kwargs)
        if call is not None:
            for callback in self._listeners:
                callback(call)
        return call

    def _changed(
        self, read: Callable[..., AttentionCall | None], call: AttentionCall | None, output: Any
    ) -> Any:
        if self.change is None or call is None:
            return output
        changed = self.change(call, output, 2 if read is _flash else 1)
        return output if changed is None else changed


@contextlib.contextmanager
def _in_place(owner: Any, name: str, ours: Any, original: Any) -> Iterator[None]:
    """Context with the original under its name: classes that override torch's functions
    (CausalBias) compare its identity. Meanwhile listeners may miss a call of another thread.
    """
    was_ours = getattr(owner, name) is ours
    if was_ours:
        setattr(owner, name, original)
    try:
        yield
    finally:
        if was_ours:
            setattr(owner, name, ours)


CALLS = AttentionCalls()
"""The shared instance of this process."""


@guarded("attention.read", stays_on=True)
def _read(
    read: Callable[..., AttentionCall | None], args: Any, kwargs: dict[str, Any]
) -> AttentionCall | None:
    return read(*args, **kwargs)


def _scaled_dot_product(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> AttentionCall | None:
    query, key, value = _own(query), _own(key), _own(value)
    if not all(_is_plain(tensor) for tensor in (query, key, value)):
        return None
    variant = getattr(attn_mask, "variant", None)  # of torch.nn.attention.bias.CausalBias
    if variant is not None:
        offset = key.shape[-2] - query.shape[-2] if variant.name == "LOWER_RIGHT" else 0
        return AttentionCall(_four(query), _four(key), _four(value), None, True, scale, offset)
    mask = None if attn_mask is None else _own(attn_mask)
    if mask is not None and mask.dim() == 3 == query.dim():
        mask = mask.unsqueeze(1)  # (B, S, T): the heads are missing
    if mask is not None and query.dim() > 4:
        return None
    return AttentionCall(_four(query), _four(key), _four(value), mask, is_causal, scale)


def _flash(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    dropout_p: float = 0.0,
    softmax_scale: float | None = None,
    causal: bool = False,
    window_size: tuple[int, int] = (-1, -1),
    softcap: float = 0.0,
    alibi_slopes: Tensor | None = None,
    **options: Any,
) -> AttentionCall | None:
    """flash_attn.flash_attn_func: (B, S, H, D), causal at the bottom right."""
    if tuple(window_size) != (-1, -1) or softcap or alibi_slopes is not None:
        return None
    query, key, value = (tensor.transpose(1, 2) for tensor in (q, k, v))
    offset = key.shape[-2] - query.shape[-2]
    return AttentionCall(query, key, value, None, causal, softmax_scale, offset)


def _flex(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    score_mod: Any = None,
    block_mask: Any = None,
    scale: float | None = None,
    **options: Any,
) -> AttentionCall | None:
    """torch's flex_attention with at most a mask, which is made dense."""
    if score_mod is not None or not _is_plain(query):
        return None
    mask = None
    if block_mask is not None:
        from torch.nn.attention.flex_attention import create_mask

        mask = create_mask(
            block_mask.mask_mod,
            query.shape[0],
            query.shape[1],
            query.shape[2],
            key.shape[2],
            device=query.device.type,
        )
    return AttentionCall(query, key, value, mask, False, scale)


def _own(tensor: Any) -> Any:
    """This rank's heads of a DTensor that is spread over heads or batch; others as they are."""
    if not hasattr(tensor, "to_local"):
        return tensor
    whole = all(p.is_replicate() or getattr(p, "dim", 9) < 2 for p in tensor.placements)
    return tensor.to_local() if whole else None


def _is_plain(tensor: Any) -> bool:
    """Whether the hooks can read it: dense, on a known device, not under graph capture."""
    if not isinstance(tensor, Tensor) or tensor.layout != torch.strided or tensor.is_nested:
        return False
    if tensor.dim() < 2 or tensor.device.type not in ("cpu", "cuda") or not tensor.numel():
        return False
    return not (tensor.is_cuda and torch.cuda.is_current_stream_capturing())


def _four(tensor: Tensor) -> Tensor:
    """(B, H, S, D) of (S, D), (B, S, D) or (..., H, S, D)."""
    if tensor.dim() == 3:
        return tensor.unsqueeze(1)
    return tensor[None, None] if tensor.dim() == 2 else tensor.flatten(0, -4)
