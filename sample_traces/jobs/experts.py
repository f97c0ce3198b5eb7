"""Blocks whose MLP is a choice among experts, which lie on different ranks.

Shapes: B batch, T tokens of a sequence, N = B T tokens, K experts of a token, D model width,
F width inside an expert, E experts of a layer, e of them on this rank, R received rows.
"""

from __future__ import annotations

import time
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import FSDPModule, fully_shard
from torch.nn import functional

from sample_traces.jobs.exchange import Exchange
from sample_traces.jobs.model import Block, GPTSizes, Stage


@dataclass(frozen=True)
class ExpertSizes:
    """Experts of each layer, spread evenly over `num_ranks`, those of the axis ep.

    Raises ValueError naming the value and the remedy.
    """

    num_experts: int = 8
    top_k: int = 2
    num_ranks: int = 1

    def __post_init__(self) -> None:
        if self.num_experts % self.num_ranks:
            raise ValueError(
                f"{self.num_experts} experts do not split over {self.num_ranks} ranks; give a "
                f"multiple of {self.num_ranks}"
            )
        if not 1 <= self.top_k <= self.num_experts:
            raise ValueError(
                f"each token goes to {self.top_k} of {self.num_experts} experts; give --top-k from "
                f"1 to {self.num_experts}"
            )

    def local(self, rank: int) -> range:
        """Experts that lie on a rank of the group."""
        each = self.num_experts // self.num_ranks
        return range(rank * each, (rank + 1) * each)

    def step_flops(self, sizes: GPTSizes, num_tokens: int) -> float:
        """Model FLOPs of forward and backward: each token passes K experts instead of one MLP."""
        more = 8 * (self.top_k - 1) * sizes.num_layers * sizes.width**2
        return sizes.step_flops(num_tokens) + 6.0 * num_tokens * more


class Router(nn.Module):
    """Chooses the experts of each token; `bias` evens out the load, see `balance`."""

    bias: Tensor
    load: Tensor

    def __init__(self, sizes: GPTSizes, experts: ExpertSizes) -> None:
        super().__init__()
        self.top_k = experts.top_k
        self.gate = nn.Linear(sizes.width, experts.num_experts, bias=False)
        self.register_buffer("bias", torch.zeros(experts.num_experts))
        self.register_buffer("load", torch.zeros(experts.num_experts))  # tokens since `balance`

    def forward(self, x_ND: Tensor) -> tuple[Tensor, Tensor]:
        """(N, D) -> weights (N, K), experts (N, K)."""
        scores_NE = self.gate(x_ND).sigmoid()
        indices_NK = (scores_NE.detach() + self.bias).topk(self.top_k, dim=-1).indices
        weights_NK = scores_NE.gather(-1, indices_NK)
        if self.training:
            ones = torch.ones_like(indices_NK.flatten(), dtype=self.load.dtype)
            self.load.scatter_add_(0, indices_NK.flatten(), ones)
        return weights_NK / weights_NK.sum(-1, keepdim=True), indices_NK


class Experts(nn.Module):
    """The experts of one layer that lie on this rank."""

    def __init__(self, sizes: GPTSizes, local: range) -> None:
        super().__init__()
        self.local = local
        self.up_eDF = nn.Parameter(torch.empty(len(local), sizes.width, 4 * sizes.width))
        self.down_eFD = nn.Parameter(torch.empty(len(local), 4 * sizes.width, sizes.width))

    def forward(self, x_RD: Tensor, counts: Sequence[int]) -> Tensor:
        """(R, D), the rows of each expert together -> (R, D). `counts`: rows of each expert."""
        rows = x_RD.split(list(counts))
        return torch.cat(
            [
                functional.gelu(row @ up) @ down
                for row, up, down in zip(rows, self.up_eDF, self.down_eFD, strict=True)
            ]
        )


InFlight = list[tuple[Tensor, Tensor, Exchange]]
"""Of each group: hidden states before the experts (B, T, D), weights (N, K), and its tokens."""


class ExpertBlock(nn.Module):
    """One transformer layer with experts.

    `groups`: parts of a micro-batch that take turns (ping-pong): tokens of one are on their way
    while attention or experts work on another, also from one layer to the next. `is_last`: of its
    stage, whose output is whole again.
    """

    def __init__(
        self,
        block: Block,
        router: Router,
        experts: Experts,
        ep: dist.ProcessGroup,
        groups: int,
        is_last: bool,
    ) -> None:
        super().__init__()
        self.attention_norm, self.attention = block.attention_norm, block.attention
        self.mlp_norm = block.mlp_norm
        self.router = router
        self.experts = experts
        self.ep = ep
        self.groups = groups
        self.is_whole = is_last or groups == 1

    def forward(self, x: Tensor | InFlight) -> Tensor | InFlight:
        """(B, T, D) or groups in flight -> (B, T, D), or groups in flight."""
        parts = x.chunk(self.groups) if isinstance(x, Tensor) else arriving(x)
        in_flight: InFlight = []
        for part_BTD in parts:
            part_BTD = part_BTD + self.attention(self.attention_norm(part_BTD))
            x_ND = self.mlp_norm(part_BTD).flatten(0, 1)
            weights_NK, indices_NK = self.router(x_ND)
            exchange = Exchange(x_ND, indices_NK, self.router.gate.out_features, self.ep)
            in_flight.append((part_BTD, weights_NK, exchange))
        for _, _, exchange in in_flight:
            exchange.combine(self.experts(*exchange.dispatched()))
        return torch.cat(list(arriving(in_flight))) if self.is_whole else in_flight


def arriving(in_flight: InFlight) -> Iterator[Tensor]:
    """Hidden states of each group (B, T, D), awaited when it is their turn."""
    for part_BTD, weights_NK, exchange in in_flight:
        yield part_BTD + exchange.combined(weights_NK).view_as(part_BTD)


def with_experts(
    stage: Stage, sizes: GPTSizes, experts: ExpertSizes, mesh: DeviceMesh, seed: int, groups: int
) -> None:
    """Replace the MLP of each block by experts, in place. `mesh` has the axis ep.

    Every parameter depends on the seed, its name and its expert, not on the rank.
    """
    local = experts.local(mesh.get_local_rank("ep"))
    last = list(stage.blocks)[-1]
    for layer, block in list(stage.blocks.items()):
        own = Experts(sizes, local)
        router = Router(sizes, experts)
        for name, parameter in own.named_parameters():
            for expert, weight in zip(local, parameter, strict=True):
                _draw(weight, f"{seed} blocks.{layer}.{name}.{expert}")
        _draw(router.gate.weight, f"{seed} blocks.{layer}.gate")
        is_last = layer == last
        ep = mesh["ep"].get_group()
        stage.blocks[layer] = ExpertBlock(block, router, own, ep, groups, is_last)


def _draw(weight: Tensor, key: str) -> None:
    random = torch.Generator().manual_seed(zlib.crc32(key.encode()))
    with torch.no_grad():
        weight.normal_(std=0.02, generator=random)


def take_longer(stage: Stage, attention_ms: float, experts_ms: float) -> None:
    """Have each forward of attention and of the experts wait so long, as for a device."""
    for block in stage.blocks.values():
        for module, ms in ((block.attention, attention_ms), (block.experts, experts_ms)):
            module.register_forward_hook(lambda *_, ms=ms: time.sleep(ms / 1_000))


def shard_experts(stage: Stage, mesh: DeviceMesh) -> None:
    """FSDP2 of the experts over those ranks that have the same ones (axis edp), in place; before
    that of the rest over all ranks of the stage.

    Gradients are divided by the number of all ranks that send tokens.
    """
    for block in stage.blocks.values():
        fully_shard(block.experts, mesh=mesh["edp"], reshard_after_forward=False)
        assert isinstance(block.experts, FSDPModule)
        block.experts.set_gradient_divide_factor(mesh["edp"].size() * mesh["ep"].size())
        block.experts.set_force_sum_reduction_for_comms(True)  # gloo has no premultiplied sum


def balance(stages: Sequence[Stage], replicas: dist.ProcessGroup, rate: float) -> None:
    """Raise the scores of experts that had few tokens since the last call by `rate`, lower those
    of others (arXiv 2408.15664).

    `replicas`: the ranks that have the same stages.
    """
    routers = [block.router for stage in stages for block in stage.blocks.values()]
    loads_LE = torch.stack([router.load for router in routers])
    dist.all_reduce(loads_LE, group=replicas)
    for router, load_E in zip(routers, loads_LE, strict=True):
        router.bias += rate * (load_E.mean() - load_E).sign()
        router.load.zero_()
