"""The token ids of a batch: how many there are, and whether two ranks have the same."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any

import torch
from torch import Tensor

from trace_hooks.schema import UNKNOWN

TOKEN_KEYS = ("input_ids", "tokens", "token_ids")
"""Keys of a batch under which token ids are found."""

HASHED = 64
"""Ids of which a hash is made, evenly spaced."""

_INTEGERS = (torch.int64, torch.int32)


def num_tokens(batch: Any) -> int:
    """Token ids in a batch: those of a known key, or of a first integer matrix; -1 unclear."""
    if isinstance(batch, (list, tuple)):  # abstract classes are slower to test
        batch = batch[0] if batch else None
    elif not isinstance(batch, Tensor):
        if isinstance(batch, Mapping):
            batch = next((batch[key] for key in TOKEN_KEYS if key in batch), None)
        elif isinstance(batch, Sequence) and not isinstance(batch, str) and batch:
            batch = batch[0]
    if isinstance(batch, Tensor) and batch.dim() >= 2 and batch.dtype in _INTEGERS:
        return batch.numel()
    return UNKNOWN


def ids_hash(batch: Any) -> int | None:
    """A number that is the same on all ranks with the same batch: of the shape and some values of
    its first integer tensor, token ids before others.

    None where it has none on the host, or where all values looked at are equal, as in a mask.
    """
    ids = _ids(batch)
    if ids is None:
        return None
    with suppress(RuntimeError, TypeError, ValueError):
        shape = ids.shape
        while not ids.is_contiguous():
            ids = ids[0]
        values = ids.view(-1)[:: max(ids.numel() // HASHED, 1)].tolist()
        if len(set(values)) > 1:
            return hash((*shape, *values))  # of integers: the same in every process
    return None


def _ids(batch: Any) -> Tensor | None:
    parts: Iterable[Any] = (batch,)
    if isinstance(batch, Mapping):
        parts = [*(batch[key] for key in TOKEN_KEYS if key in batch), *batch.values()]
    elif isinstance(batch, (list, tuple)):
        parts = batch
    return next((part for part in parts if _are_ids(part)), None)


def _are_ids(part: Any) -> bool:
    return (
        type(part) is Tensor
        and part.dtype in _INTEGERS
        and part.device.type == "cpu"
        and part.dim() > 0
    )
