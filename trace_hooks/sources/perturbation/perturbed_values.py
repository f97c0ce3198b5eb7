"""How each kind of perturbation changes the values of a tensor.

Numbers come from generators of their own: the job's random state is not touched. A tensor's numbers
depend only on what they are drawn for, so ranks that hold the same tensor draw the same numbers,
and a recomputed forward draws those of the first one.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from trace_hooks.protocol.perturbations import Perturbation
from trace_hooks.sources.tensors.attention import AttentionCall, weights
from trace_hooks.sources.tensors.tensor_samples import own_part

_BITS = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


class Draw:
    """Random numbers for one tensor; `names` say what they are drawn for."""

    def __init__(self, *names: object) -> None:
        digest = hashlib.blake2b(repr(names).encode(), digest_size=8).digest()
        self._seed = int.from_bytes(digest, "little") >> 1
        self.random = random.Random(self._seed)

    def generator(self, device: torch.device) -> torch.Generator:
        """A generator on a device, which returns the same numbers each time."""
        return torch.Generator(device).manual_seed(self._seed)


def changed(values: Tensor, request: Perturbation, draw: Draw) -> Tensor:
    """A changed copy; gradients pass through the change, but ignore a flipped bit."""
    strength = request.strength or 0.0
    if request.kind == "offset":
        return values + strength
    if request.kind == "ablate":  # times 0 would keep NaN
        return values.masked_fill(torch.ones((), dtype=torch.bool, device=values.device), 0.0)
    if request.kind == "bit_flip":
        return _flipped(values, request.bit, draw)
    like: Any = {
        "generator": draw.generator(values.device),
        "device": values.device,
        "dtype": values.dtype,
    }
    if request.kind == "gaussian":
        return values + torch.randn(values.shape, **like) * strength
    return values * (1 + strength * (2 * torch.rand(values.shape, **like) - 1))


def _flipped(values: Tensor, bit: int | None, draw: Draw) -> Tensor:
    num_bits = 8 * values.itemsize
    bit = draw.random.randrange(num_bits) if bit is None else bit
    if bit >= num_bits:
        raise ValueError(f"{values.dtype} has no bit {bit}; give one below {num_bits}")
    mask = 1 << bit if bit < num_bits - 1 else -(1 << bit)  # the highest is the sign
    flipped = values.clone()
    flipped.detach().view(_BITS[values.itemsize]).bitwise_xor_(mask)
    return flipped


def extent_of(tensor: Tensor, extent: int | None, draw: Draw) -> Tensor:
    """View of the values to change: all, or `extent` of them, evenly spread from a random one.

    Raises ValueError where only some values are to change in a tensor with gaps in memory.
    """
    if extent is None or extent >= tensor.numel():
        return tensor
    order = sorted(range(tensor.dim()), key=lambda dim: -tensor.stride(dim))
    dense = tensor.permute(order)
    if not dense.is_contiguous():
        raise ValueError(
            "extent needs a tensor that is contiguous in memory, which this one is not; leave "
            "extent out"
        )
    every = tensor.numel() // extent
    return dense.view(-1)[draw.random.randrange(every) :: every][:extent]


def perturbed(tensor: Tensor, request: Perturbation, draw: Draw) -> Tensor:
    """A copy of a tensor with its extent changed."""
    if request.extent is None or request.extent >= tensor.numel():
        return changed(tensor, request, draw)
    copy = tensor.clone(memory_format=torch.contiguous_format)
    extent = extent_of(copy, request.extent, draw)
    extent.copy_(changed(extent, request, draw))
    return copy


def perturbed_head(
    output: Tensor, dim: int, head: int, call: AttentionCall, request: Perturbation, draw: Draw
) -> Tensor | None:
    """Output of a call of attention with one head of this rank changed; None where it can't be.

    `dim`: of the heads in an output of four dimensions; one of less has a single head.
    """
    if output.dim() > 4 or (request.kind == "flat_attention" and call.value_BGTD is None):
        return None
    copy = output.clone()
    values = copy.select(dim, head) if output.dim() == 4 else copy
    if request.kind == "flat_attention":
        values.copy_(_flat(call, head).view(values.shape))
    else:
        values.copy_(perturbed(values, request, draw))
    return copy


def _flat(call: AttentionCall, head: int) -> Tensor:
    """(B, S, D): a head's output if each row gave all keys that it may see the same weight."""
    assert call.value_BGTD is not None
    even = replace(call, query_BHSD=torch.zeros_like(call.query_BHSD))
    value_BTD = call.value_BGTD[:, call.key_head(head)]
    weights_BST = torch.cat(
        [weights(even, [head], slice(None), sample) for sample in range(call.num_samples)]
    )
    return weights_BST.to(value_BTD.dtype) @ value_BTD


def on_own_part(tensor: Any, change: Callable[[Tensor, str], Tensor | None]) -> Any:
    """Result of change(this rank's part, its shard), as a tensor like the whole one.

    None where the rank has no values that can be changed (DTensors that are still to be summed).
    """
    own = own_part(tensor)
    if own is None or hasattr(own[0], "fake_mode"):
        return None
    if not hasattr(tensor, "to_local"):
        return change(tensor, own[1])
    changed_part = change(tensor.to_local(), own[1])
    if changed_part is None:
        return None
    from torch.distributed.tensor import DTensor  # imported already: the tensor is one

    return DTensor.from_local(
        changed_part,
        tensor.device_mesh,
        tensor.placements,
        run_check=False,
        shape=tensor.shape,
        stride=tensor.stride(),
    )


def on_first_tensor(output: Any, change: Callable[[Tensor], Any]) -> Any:
    """A module's output with its first tensor changed; None where nothing is."""
    if isinstance(output, Tensor):
        return change(output)
    if type(output) in (tuple, list) and output and isinstance(output[0], Tensor):
        changed_tensor = change(output[0])
        return None if changed_tensor is None else type(output)((changed_tensor, *output[1:]))
    return None
