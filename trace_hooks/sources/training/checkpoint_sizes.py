"""How large a checkpoint is, from the arguments of the call that saved or read it."""

from __future__ import annotations

import io
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path
from stat import S_ISREG
from typing import Any

import torch

from trace_hooks.schema import UNKNOWN

MOST_VALUES = 200_000
"""Of a larger state the size stays unknown: looking at a value takes about a microsecond."""


def file_bytes(position: int, args: Sequence[Any], kwargs: Mapping[str, Any]) -> int:
    """Size of the regular file that is argument `position` (or `f`), by path or open; else -1."""
    file = args[position] if len(args) > position else kwargs.get("f")
    if isinstance(file, io.BytesIO):
        with file.getbuffer() as view:
            return view.nbytes
    with suppress(OSError, AttributeError, TypeError, ValueError):
        by_path = isinstance(file, (str, os.PathLike))
        status = Path(file).stat() if by_path else os.fstat(file.fileno())  # type: ignore[arg-type,union-attr]
        if S_ISREG(status.st_mode):
            return status.st_size
    return UNKNOWN


def tensor_bytes(args: Sequence[Any], kwargs: Mapping[str, Any]) -> int:
    """Bytes of this rank's tensors in the state that is the first argument; -1 unknown."""
    state = args[0] if args else kwargs.get("state_dict")
    total = 0
    for number, value in enumerate(islice(_values(state), MOST_VALUES + 1)):
        if number == MOST_VALUES:
            return UNKNOWN
        local = getattr(value, "_local_tensor", value)  # of a DTensor
        if type(local) in (torch.Tensor, torch.nn.Parameter):
            total += local.nelement() * local.element_size()
    return total


def _values(state: Any) -> Iterator[Any]:
    if isinstance(state, Mapping):
        for value in state.values():
            yield from _values(value)
    elif isinstance(state, (list, tuple)):
        for value in state:
            yield from _values(value)
    else:
        yield state
