"""Tokens on their way to experts on other ranks, and back: all-to-alls with gradients.

Each all-to-all is begun at once and awaited where its result is needed, in the backward pass, too:
there the gradients go the opposite way.

Shapes: N tokens, K experts of a token, D model width, E experts, R received rows.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor


class Exchange:
    """Tokens of one rank, sent to their experts and back. Begins to send when it is made.

    Experts lie on the ranks of `group` in order, as many on each.
    """

    def __init__(
        self, x_ND: Tensor, indices_NK: Tensor, num_experts: int, group: dist.ProcessGroup
    ) -> None:
        self.top_k = indices_NK.shape[1]
        flat = indices_NK.flatten()
        self.order = flat.argsort(stable=True)  # choices by expert
        counts_E = torch.bincount(flat, minlength=num_experts)
        num_ranks, rank = group.size(), group.rank()
        gathered = [torch.empty_like(counts_E) for _ in range(num_ranks)]
        dist.all_gather(gathered, counts_E, group=group)
        counts = torch.stack(gathered).view(
            num_ranks, num_ranks, -1
        )  # from rank, to rank, its expert
        sent, self.received = counts[rank].sum(-1), counts[:, rank]
        to, come = sent.tolist(), self.received.sum(-1).tolist()
        rows = x_ND[self.order // self.top_k]
        self._there = AllToAll(rows, to, come, group)
        self._sizes = to, come
        self._group = group
        self._back: AllToAll | None = None

    def dispatched(self) -> tuple[Tensor, list[int]]:
        """What came: (R, D), the rows of each of this rank's experts together, and their counts."""
        rows = self._there.wait()
        num_ranks, each = self.received.shape
        pieces = rows.split(self.received.flatten().tolist())  # by rank, then by expert
        by_expert = [pieces[r * each + e] for e in range(each) for r in range(num_ranks)]
        return torch.cat(by_expert), self.received.sum(0).tolist()

    def combine(self, rows_RD: Tensor) -> None:
        """Begin to send the experts' results back."""
        num_ranks, each = self.received.shape
        pieces = rows_RD.split(self.received.T.flatten().tolist())  # by expert, then by rank
        by_rank = torch.cat(
            [pieces[e * num_ranks + r] for r in range(num_ranks) for e in range(each)]
        )
        to, come = self._sizes
        self._back = AllToAll(by_rank, come, to, self._group)

    def combined(self, weights_NK: Tensor) -> Tensor:
        """(N, D): the results of each token's experts, weighted."""
        assert self._back is not None
        rows = self._back.wait() * weights_NK.flatten()[self.order].unsqueeze(-1)
        num_tokens = weights_NK.shape[0]
        return rows.new_zeros(num_tokens, rows.shape[1]).index_add(
            0, self.order // self.top_k, rows
        )


class AllToAll:
    """One all-to-all of rows, begun when it is made. `to`, `come`: rows for and from each rank."""

    def __init__(
        self, rows: Tensor, to: list[int], come: list[int], group: dist.ProcessGroup
    ) -> None:
        self.to, self.come, self.group = to, come, group
        self.work: Any = None
        self.gradients: Tensor | None = None  # those that come in the backward pass
        self._rows = _Begin.apply(rows, self)

    def begin(self, rows: Tensor, to: list[int], come: list[int]) -> Tensor:
        """Begin to send rows; those that come are there once `work` is done."""
        received = rows.new_empty(sum(come), *rows.shape[1:])
        self.work = dist.all_to_all_single(
            received, rows.contiguous(), come, to, group=self.group, async_op=True
        )
        return received

    def wait(self) -> Tensor:
        """The rows that came."""
        rows: Tensor = _End.apply(self._rows, self)
        return rows


class _Begin(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, rows: Tensor, exchange: AllToAll) -> Tensor:
        ctx.exchange = exchange
        return exchange.begin(rows, exchange.to, exchange.come)

    @staticmethod
    def backward(ctx: Any, _gradient: Tensor) -> tuple[Tensor, None]:
        ctx.exchange.work.wait()
        return ctx.exchange.gradients, None


class _End(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, rows: Tensor, exchange: AllToAll) -> Tensor:
        ctx.exchange = exchange
        exchange.work.wait()
        return rows.view_as(rows)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        exchange = ctx.exchange
        exchange.gradients = exchange.begin(gradient, exchange.come, exchange.to)
        return gradient, None
