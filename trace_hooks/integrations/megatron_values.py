"""Numbers of a step that a training loop with Megatron has."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any

import torch


def mean_loss(logged: Sequence[Mapping[str, Any]]) -> torch.Tensor | None:
    """Mean over micro-batches of what a loss function reports under a name with "loss" in it.

    Each is a loss, or the sum over tokens and their number; None where there is none.
    """
    name = next((n for n in (logged[0] if logged else ()) if "loss" in n.lower()), None)
    if name is None:
        return None
    parts = [of[name] for of in logged]
    rows = [torch.stack(list(p)) if isinstance(p, (tuple, list)) else p for p in parts]
    values = torch.stack([row.detach().flatten().float() for row in rows])
    if values.shape[1] == 2:
        total = values.sum(0)
        return total[0] / total[1]
    return values.mean() if values.shape[1] == 1 else None


def iteration() -> int | None:
    """Steps that Megatron-LM has made; None in another training loop."""
    state: Any = sys.modules.get("megatron.training.global_vars")
    arguments = getattr(state, "_GLOBAL_ARGS", None)
    number = getattr(arguments, "curr_iteration", None)
    return number if isinstance(number, int) else None


def is_capturing() -> bool:
    """Whether a CUDA graph records: what a hook computes would become part of it."""
    return bool(torch.cuda.is_initialized() and torch.cuda.is_current_stream_capturing())
