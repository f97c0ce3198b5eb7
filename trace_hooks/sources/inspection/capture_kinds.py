"""What each kind of watch takes from a call of a hook: attention, Q, K and V, outputs, logits and
next-token probabilities, parameters. Each is a generator of captures; nothing here writes to a
tensor of the job, draws a random number, communicates, or waits for a device.

Shapes: as in trace_hooks/sources/tensors/attention.py; N frames, R rows, C columns, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from trace_hooks.protocol.frames import ITEM_BYTES
from trace_hooks.protocol.watches import Watch
from trace_hooks.sources.inspection.captures import (
    ActiveWatch,
    Capture,
    Rows,
    pooled,
    size_of,
    wanted_rows,
)
from trace_hooks.sources.tensors.attention import AttentionCall, weights
from trace_hooks.sources.tensors.global_indices import AttentionPlace

VALUES_AT_ONCE = {"cpu": 1 << 18, "cuda": 1 << 22}
"""Most attention weights made at once: on a CPU they stay in its cache, on a GPU this saves
kernels."""

TOP = 20
"""Most probable next tokens of each row."""

MAX_TOKEN_ROWS = 256
"""Most rows with next-token probabilities: each has its own labels."""


def attention_of(
    active: ActiveWatch, call: AttentionCall, place: AttentionPlace
) -> Iterator[Capture]:
    """Attention weights of the watched heads, a frame for each head and sequence."""
    watch = active.watch
    rows = wanted_rows(watch, call.num_rows, call.num_keys)
    heads = chosen_heads(watch, call.num_heads, place.head_begin)
    if rows is None or not heads:
        return
    num_rows = rows.of(call.num_rows)
    most = VALUES_AT_ONCE[call.query_BHSD.device.type]
    at_once = max(1, most // (num_rows * call.num_keys))
    for chosen in (heads[at : at + at_once] for at in range(0, len(heads), at_once)):
        for sample in samples_of(watch, call.num_samples):
            if not _fits(active, len(chosen), num_rows, call.num_keys):
                continue
            if sample >= 0:
                values_HRT = weights(call, chosen, rows.slice, sample)
            else:
                values_HRT = sum(
                    weights(call, chosen, rows.slice, each_sample)
                    for each_sample in range(call.num_samples)
                )
                values_HRT = values_HRT / call.num_samples
            each = [{"head": place.head_begin + head, "sample": sample} for head in chosen]
            yield _capture(active, _columns_at(active, "attention", place), each, values_HRT, rows)


def qkv_of(active: ActiveWatch, call: AttentionCall, place: AttentionPlace) -> Iterator[Capture]:
    """Query, key and value of the watched heads, as the kernel gets them (after rotation)."""
    heads = chosen_heads(active.watch, call.num_heads, place.head_begin)
    key_heads = list(dict.fromkeys(call.key_head(head) for head in heads))
    for what, tensor, chosen, begin in (
        ("query", call.query_BHSD, heads, place.head_begin),
        ("key", call.key_BGTD, key_heads, place.key_head_begin),
        ("value", call.value_BGTD, key_heads, place.key_head_begin),
    ):
        if tensor is not None and chosen:
            yield from _of_heads(active, tensor, chosen, begin, _columns_at(active, what, place))


def _of_heads(
    active: ActiveWatch, tensor_BHSD: Tensor, heads: list[int], begin: int, columns: dict[str, Any]
) -> Iterator[Capture]:
    num_samples, _, num_rows, num_columns = tensor_BHSD.shape
    rows = wanted_rows(active.watch, num_rows, num_columns)
    if rows is None:
        return
    for sample in samples_of(active.watch, num_samples):
        if _fits(active, len(heads), rows.of(num_rows), num_columns):
            values_HSD = _one_sample(tensor_BHSD.detach()[:, :, rows.slice], sample)
            each = [{"head": begin + head, "sample": sample} for head in heads]
            yield _capture(active, columns, each, values_HSD[_together(heads)], rows)


def output_of(
    active: ActiveWatch, tensor: Tensor, columns: dict[str, Any], first: int = 0
) -> Iterator[Capture]:
    """Output of a module, rows being tokens; `first`: the token of this rank's first row."""
    tensor_BRC = _three(tensor)
    num_samples, num_rows, num_columns = tensor_BRC.shape
    rows = wanted_rows(active.watch, num_rows, num_columns, first)
    if rows is None:
        return
    for sample in samples_of(active.watch, num_samples):
        if _fits(active, 1, rows.of(num_rows), num_columns):
            values_RC = _one_sample(tensor_BRC[:, rows.slice], sample)
            yield _capture(active, columns, [{"sample": sample}], values_RC[None], rows)


def probabilities_of(
    active: ActiveWatch, logits: Tensor, columns: dict[str, Any], first: int = 0
) -> Iterator[Capture]:
    """The TOP most probable next tokens of each row; labels are their ids, value by value.

    Only of logits over the whole vocabulary: a softmax over a part of it would be too large.
    """
    logits_BRV = _three(logits)
    num_samples, num_rows, num_tokens = logits_BRV.shape
    top = min(TOP, num_tokens)
    rows = token_rows(active.watch, num_rows, num_tokens, first)
    if rows is None:
        return
    for wanted in samples_of(active.watch, num_samples):
        sample = max(0, wanted)  # a mean over different tokens means nothing
        if _fits(active, 1, rows.of(num_rows), top):
            logits_RV = logits_BRV[sample, rows.slice].float()
            best_RK, token_RK = logits_RV.softmax(-1).topk(top)
            both_RC = torch.cat([best_RK, token_RK.float()], -1)
            common = {**columns, "row_begin": rows.begin, "row_every": rows.every}
            yield Capture(common, [{"sample": sample}], both_RC[None], names="second half")


def parameter_of(active: ActiveWatch, tensor: Tensor, columns: dict[str, Any]) -> Iterator[Capture]:
    """Rows of a weight, or of its gradient, or of this rank's part of them."""
    matrix_RC = tensor.reshape(1, -1) if tensor.dim() < 2 else tensor.flatten(1)
    num_rows, num_columns = matrix_RC.shape
    rows = wanted_rows(active.watch, num_rows, num_columns)
    if rows is not None and _fits(active, 1, rows.of(num_rows), num_columns):
        yield _capture(active, columns, [{}], matrix_RC[rows.slice][None], rows)


def chosen_heads(watch: Watch, num_heads: int, begin: int) -> list[int]:
    """Watched heads of this rank, counted from 0; its first is head `begin` of the model."""
    wanted = watch.heads
    return [head for head in range(num_heads) if wanted is None or begin + head in wanted]


def samples_of(watch: Watch, num_samples: int) -> list[int]:
    """Watched sequences that the batch has; -1 is their mean."""
    if watch.samples is None:
        return [-1]
    return [sample for sample in watch.samples if sample < num_samples]


def _together(numbers: list[int]) -> slice | list[int]:
    """A slice where the numbers are consecutive: indexing then makes no copy."""
    first, last = numbers[0], numbers[-1]
    return slice(first, last + 1) if numbers == list(range(first, last + 1)) else numbers


def _one_sample(tensor_B: Tensor, sample: int) -> Tensor:
    """One sequence, or the mean of all in float32."""
    return tensor_B.float().mean(0) if sample < 0 else tensor_B[sample]


def _three(tensor: Tensor) -> Tensor:
    """(B, R, C) of (C,), (R, C) or (..., R, C)."""
    tensor = tensor.detach()
    if tensor.dim() < 3:
        return tensor.reshape(1, -1, tensor.shape[-1])
    return tensor.flatten(0, -3)


def token_rows(watch: Watch, num_rows: int, num_tokens: int, first: int = 0) -> Rows | None:
    """Rows with next-token probabilities: at most MAX_TOKEN_ROWS of the watched ones."""
    rows = wanted_rows(watch, num_rows, num_tokens, first)
    if rows is None:
        return None
    factor = -(-rows.of(num_rows) // MAX_TOKEN_ROWS)
    step = rows.every * factor
    return Rows(slice(rows.slice.start, rows.slice.stop, step), rows.begin, step)


def _columns_at(active: ActiveWatch, what: str, place: AttentionPlace) -> dict[str, Any]:
    return {
        "watch": active.watch.id,
        "what": what,
        "layer": place.layer,
        "name": place.name,
        "chunk": place.chunk,
        "microbatch": place.microbatch,
        "shard": place.shard,
    }


def _dtype(active: ActiveWatch, what: str) -> str:
    """Type of the stored numbers; a pooled map of attention is only looked at: 255 levels do."""
    return "uint8" if what == "attention" and active.watch.size is not None else "float16"


def _fits(active: ActiveWatch, num_frames: int, num_rows: int, num_columns: int) -> bool:
    size = size_of(active.watch, num_rows, num_columns)
    item_bytes = ITEM_BYTES[_dtype(active, active.watch.what)]
    return active.allows(num_frames, num_frames * size[0] * size[1] * item_bytes)


def _capture(
    active: ActiveWatch,
    columns: dict[str, Any],
    each: list[dict[str, Any]],
    values: Tensor,
    rows: Rows,
) -> Capture:
    """A capture of (N, R, C) values, pooled to the size of the watch."""
    small = pooled(values, active.watch.size)
    every = rows.every * -(-values.shape[-2] // small.shape[-2])
    common = {**columns, "row_begin": rows.begin, "row_every": every}
    return Capture(common, each, small, _dtype(active, columns["what"]))
