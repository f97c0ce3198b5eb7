"""Counts choices of routers on their device, all of a step at once, and copies them to the host.

Nothing here waits for a device or writes to a tensor of the job.
Shapes: G calls of routers, N tokens of a call, K choices of a token, E experts.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from trace_hooks.recording.cuda.pinned_memory import PinnedCopy
from trace_hooks.recording.guard import attempt
from trace_hooks.schema import UNKNOWN

Call = tuple[Any, int, Tensor, int, Any, Tensor | None]
"""What a router chose for the tokens of one forward: its RouterCalls, the micro-batch, the choices
(see routers.Router), the version of that tensor (another one later: the job has overwritten it),
the stream of the device (None on the host), the auxiliary loss. A named tuple takes longer to make.
"""

Which = tuple[Any, int]
"""A call: its router and its micro-batch."""

Kind = tuple[int, int, bool]
"""Of a router: experts, choices of a token (-1 unknown), whether each choice is another token's."""


class HostCopy:
    """A small tensor on its way to the host."""

    def __init__(self, tensor: Tensor) -> None:
        self._pinned = PinnedCopy(tensor) if tensor.is_cuda else None
        self._values = tensor if self._pinned is None else self._pinned.values

    def is_ready(self) -> bool:
        """Whether it has arrived, or never will."""
        return self._pinned is None or self._pinned.is_ready()

    @property
    def is_lost(self) -> bool:
        """Whether it never will, because the device has failed."""
        return self._pinned is not None and self._pinned.is_lost

    def numpy(self) -> npt.NDArray[Any]:
        """Its values; only after is_ready."""
        values: npt.NDArray[Any] = self._values.numpy()
        return values


class Counted(NamedTuple):
    """Calls whose choices are counted."""

    calls: list[Which]
    num_tokens: int  # of each call; -1 unknown
    top_k: int  # choices of a token; -1 unknown
    counts: HostCopy  # (G, E)


@dataclass
class Load:
    """What one router chose in a step, on the host."""

    tokens: npt.NDArray[np.int64]  # (E)
    batch_tokens: int = 0
    choices: int = 0  # made, with those that were dropped; -1 unknown
    top_k: int = UNKNOWN
    losses: list[float] = field(default_factory=list)  # auxiliary, of each call

    def add(self, counted: Counted, counts: npt.NDArray[np.int64]) -> None:
        """Add a call."""
        self.tokens = self.tokens + counts
        self.top_k = counted.top_k
        num, known = counted.num_tokens, counted.top_k > 0
        is_unknown = num < 0 or self.batch_tokens < 0
        self.batch_tokens = UNKNOWN if is_unknown else self.batch_tokens + num
        is_unknown = num < 0 or self.choices < 0 or not known
        self.choices = UNKNOWN if is_unknown else self.choices + num * counted.top_k

    @property
    def dropped(self) -> int:
        """Choices left out; -1 unknown."""
        return max(UNKNOWN, self.choices - int(self.tokens.sum())) if self.choices >= 0 else UNKNOWN


class Stacked(NamedTuple):
    """Tensors of one shape: `values[i]` is of `keys[i]`."""

    keys: tuple[Any, ...]
    values: HostCopy


@dataclass
class StepLoads:
    """The loads of one step, on their way to the host."""

    step: int
    ts_ns: int
    counted: list[Counted]
    biases: list[Stacked] = field(default_factory=list)
    """By router."""
    losses: list[Stacked] = field(default_factory=list)
    """By call."""

    def is_ready(self) -> bool:
        """Whether all of it has arrived, or never will."""
        return all(copy.is_ready() for copy in self._copies())

    @property
    def is_lost(self) -> bool:
        """Whether some of it never will."""
        return any(copy.is_lost for copy in self._copies())

    def __len__(self) -> int:
        """Rows at most: one for each router."""
        return len({router for counted in self.counted for router, _ in counted.calls})

    def _copies(self) -> Iterable[HostCopy]:
        yield from (counted.counts for counted in self.counted)
        yield from (stack.values for stack in self.biases + self.losses)

    def loads(self) -> dict[Any, Load]:
        """Loads by router; only when all copies are ready.

        Where a router was called in micro-batches of a pipeline, its calls outside of them do not
        count: torch's pipelining finds the shapes of a stage by a forward on made-up numbers.
        """
        calls = [call for counted in self.counted for call in counted.calls]
        in_pipeline = {router for router, microbatch in calls if microbatch >= 0}

        def is_made_up(router: Any, microbatch: int) -> bool:
            return microbatch < 0 and router in in_pipeline

        found: dict[Any, Load] = {}
        for counted in self.counted:
            for call, counts in zip(counted.calls, counted.counts.numpy(), strict=True):
                if not is_made_up(*call):
                    load = found.setdefault(call[0], Load(np.zeros(len(counts), np.int64)))
                    load.add(counted, counts)
        for stack in self.losses:
            for call, loss in zip(stack.keys, stack.values.numpy(), strict=True):
                if not is_made_up(*call) and call[0] in found:
                    found[call[0]].losses.append(float(loss))
        return found


def count(calls: Iterable[Call]) -> list[Counted]:
    """Count the choices, of equal shapes by the same few operations, and begin to copy them."""
    alike: dict[Any, list[Call]] = {}
    for call in calls:
        calls_of, _, chosen, _, stream, _ = call
        key = (calls_of.kind, stream, chosen.dtype, chosen.shape)
        group = alike.get(key)
        if group is None:
            alike[key] = [call]
        else:
            group.append(call)
    counted = (  # each by itself: choices that cannot be counted keep no others from it
        attempt("experts.count", partial(_counted, group), switch_off=False)
        for group in alike.values()
    )
    return [one for one in counted if one is not None]


def _counted(group: list[Call]) -> Counted:
    (num_experts, top_k, is_single), stream = group[0][0].kind, group[0][4]
    choices = [call[2] for call in group]
    first = choices[0]
    with torch.cuda.stream(stream):  # does nothing where it is None
        if is_single:
            num_tokens, top_k = first.numel(), 1
            counts = count_indices(torch.stack(choices).flatten(1), num_experts)
        elif first.dim() == 1 and not first.is_floating_point():
            num_tokens = UNKNOWN
            counts = torch.stack(choices).to(torch.int64)
        else:
            num_tokens = first.numel() // max(1, first.shape[-1])
            values = torch.stack(choices)
            if first.dtype == torch.bool:
                counts = values.view(len(group), num_tokens, num_experts).sum(1)
            else:
                if values.is_floating_point():
                    values = values.topk(top_k, dim=-1).indices
                top_k = values.shape[-1]
                counts = count_indices(values.flatten(1), num_experts)
        return Counted([call[:2] for call in group], num_tokens, top_k, HostCopy(counts))


def count_indices(indices_GM: Tensor, num_experts: int) -> Tensor:
    """How often each expert is in each row: (G, M) integers -> (G, E) int64.

    Indices that are no expert's are left out: out of bounds they would end a job on CUDA.
    """
    slots = (indices_GM.to(torch.int64) + 1).clamp_(0, num_experts + 1)
    counts = slots.new_zeros(len(slots), num_experts + 2)
    counts.scatter_add_(1, slots, slots.new_ones(()).expand_as(slots))
    return counts[:, 1:-1].contiguous()


def has_values(tensor: Tensor) -> bool:
    """Whether the memory of a tensor is there: reading one that the job has freed ends the job."""
    if not tensor.numel():
        return True
    ahead = sum((n - 1) * stride for n, stride in zip(tensor.shape, tensor.stride(), strict=True))
    end = (tensor.storage_offset() + ahead + 1) * tensor.itemsize
    return tensor.untyped_storage().nbytes() >= end


def stacked(tensors: Iterable[tuple[Any, Tensor]]) -> list[Stacked]:
    """Begin to copy one tensor for each (key, tensor)."""
    alike: dict[Any, list[tuple[Any, Tensor]]] = defaultdict(list)
    for key, tensor in tensors:
        alike[tensor.device, tensor.shape].append((key, tensor))
    return [
        Stacked(
            tuple(key for key, _ in group),
            HostCopy(torch.stack([tensor.to(torch.float32) for _, tensor in group])),
        )
        for group in alike.values()
    ]


def by_key(stacks: Iterable[Stacked]) -> dict[Any, npt.NDArray[np.float32]]:
    """Values by key; only when all copies are ready."""
    return {
        key: values
        for stack in stacks
        for key, values in zip(stack.keys, stack.values.numpy(), strict=True)
    }
