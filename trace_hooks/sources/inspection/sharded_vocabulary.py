"""Logits of a vocabulary that is spread over tensor-parallel ranks: each captures its own part.

Of each row (token): the TOP greatest logits of the part and their ids, the logarithm of the sum of
exp over the part, and the logit of the true next token on the rank that has it. The browser
combines the parts (assets/model/next_tokens/vocabulary.mjs) into probabilities and losses over the
whole vocabulary, so ranks communicate nothing for a watch.

Shapes: B sequences, R rows, V tokens of the part, K the most probable ones.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from trace_hooks.layout import ParallelLayout
from trace_hooks.sources.inspection.capture_kinds import TOP, samples_of
from trace_hooks.sources.inspection.captures import ActiveWatch, Capture, Rows
from trace_hooks.sources.tensors.global_indices import first_index, tensor_parallel
from trace_hooks.sources.training.module_parts import Part

WHAT = "vocabulary_part"

NOWHERE = -1
"""Id of no token."""


def part_here(
    tensor: Any, own: Tensor, part: Part, layout: ParallelLayout | None
) -> tuple[int, int]:
    """(first id, number of parts) of the vocabulary of which `own`, this rank's part of `tensor`,
    has the logits. Plain tensors are assumed to be split evenly, as Megatron's are.
    """
    if not hasattr(tensor, "placements"):
        index, size = tensor_parallel(part.module, layout)
        return index * own.shape[-1], size
    mesh, last = tensor.device_mesh, (-1, tensor.dim() - 1)
    axes = [
        axis
        for axis, placement in enumerate(tensor.placements)
        if getattr(placement, "dim", None) in last
    ]
    return first_index(tensor, -1), math.prod(mesh.size(axis) for axis in axes)


def num_columns(num_tokens: int) -> int:
    """Columns of a frame of a part with this many tokens."""
    return min(TOP, num_tokens) + 2


def parts_of(
    active: ActiveWatch, logits_BRV: Tensor, rows: Rows, columns: dict[str, Any], first_id: int
) -> list[Capture]:
    """K logits, the logarithm of the sum, and the true token's logit: NaN until `add_true_tokens`,
    and where another rank has it. Labels: ids of the K, none, the true token's.
    """
    common = {**columns, "what": WHAT, "row_begin": rows.begin, "row_every": rows.every}
    captures = []
    for wanted in samples_of(active.watch, len(logits_BRV)):
        sample = max(0, wanted)  # a mean over different tokens means nothing
        logits_RV = logits_BRV[sample, rows.slice].float()
        best_RK, token_RK = logits_RV.topk(min(TOP, logits_RV.shape[-1]))
        sum_R1 = logits_RV.logsumexp(-1, keepdim=True)
        values_RC = torch.cat([best_RK, sum_R1, torch.full_like(sum_R1, torch.nan)], -1)
        no_id_R2 = torch.full_like(token_RK[:, :1], NOWHERE).expand(-1, 2)
        both_RC = torch.cat([values_RC, (token_RK + first_id).float(), no_id_R2.float()], -1)
        each = [{"sample": sample}]
        captures.append(Capture(common, each, both_RC[None], "float32", names="second half"))
    return captures


def add_true_tokens(
    captures: list[Capture], logits_BRV: Tensor, target_BR: Tensor, rows: Rows, first_id: int
) -> None:
    """Add the true next tokens, -1 where there is none; R may be one less than in `captures`."""
    num_tokens = logits_BRV.shape[-1]
    for capture in captures:
        sample = capture.each[0]["sample"]
        target_R = target_BR[sample, rows.slice].long()
        place_R = target_R - first_id
        is_here_R = (target_R >= 0) & (place_R >= 0) & (place_R < num_tokens)
        place_R1 = place_R.clamp(0, num_tokens - 1)[:, None]
        true_R = logits_BRV[sample, rows.slice].float().gather(-1, place_R1)[:, 0]
        values_RC, ids_RC = capture.values[0].chunk(2, dim=-1)
        values_RC[: len(true_R), -1] = true_R.masked_fill(~is_here_R, torch.nan)
        ids_RC[: len(true_R), -1] = target_R.float()
