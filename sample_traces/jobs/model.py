"""A small GPT that can be cut into pipeline stages, and the data it learns from."""

from __future__ import annotations

import time
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import Dataset

from sample_traces.jobs.faults import Fault

# Shapes: B batch, T tokens of a sequence, D model width, H heads (of this rank), V vocabulary.


@dataclass(frozen=True)
class GPTSizes:
    """Sizes of the model; raises ValueError naming the value and the remedy."""

    num_layers: int = 4
    width: int = 256
    num_heads: int = 8
    vocabulary: int = 512
    seq_len: int = 128

    def __post_init__(self) -> None:
        if self.width % (2 * self.num_heads):
            raise ValueError(
                f"width {self.width} does not split into {self.num_heads} heads of even size; "
                f"give a multiple of {2 * self.num_heads}"
            )

    @property
    def num_parameters(self) -> int:
        """Matrix parameters: embedding, head, and 12 D^2 per layer."""
        return 2 * self.vocabulary * self.width + 12 * self.num_layers * self.width**2

    def step_flops(self, num_tokens: int) -> float:
        """Model FLOPs of forward and backward over `num_tokens` (6 N + 12 L D T per token)."""
        attention = 12 * self.num_layers * self.width * self.seq_len
        return float(num_tokens * (6 * self.num_parameters + attention))


def rotated(x_BHTd: torch.Tensor) -> torch.Tensor:
    """Rotary position embedding, so that no stage needs to know positions."""
    half = x_BHTd.shape[-1] // 2
    position = torch.arange(x_BHTd.shape[-2], device=x_BHTd.device, dtype=torch.float32)
    speed = 10_000.0 ** -(torch.arange(half, device=x_BHTd.device) / half)
    angle = position[:, None] * speed[None, :]
    first, second = x_BHTd.split(half, dim=-1)
    cos, sin = angle.cos().to(x_BHTd.dtype), angle.sin().to(x_BHTd.dtype)
    return torch.cat([first * cos - second * sin, first * sin + second * cos], dim=-1)


class Attention(nn.Module):
    """Causal self-attention; the rows of `qkv` are ordered by head, so a shard has whole heads.

    `lengths`: of the sequences in each row of the batch, which see only themselves; None: a row is
    one sequence.
    """

    lengths: list[list[int]] | None = None

    def __init__(self, sizes: GPTSizes) -> None:
        super().__init__()
        self.head_size = sizes.width // sizes.num_heads
        self.qkv = nn.Linear(sizes.width, 3 * sizes.width, bias=False)
        self.out = nn.Linear(sizes.width, sizes.width, bias=False)

    def forward(self, x_BTD: torch.Tensor) -> torch.Tensor:
        """(B, T, D) -> (B, T, D); T is the whole sequence."""
        qkv = self.qkv(x_BTD)
        heads = qkv.unflatten(-1, (-1, 3, self.head_size)).permute(3, 0, 2, 1, 4)
        query, key, value = heads
        mixed = mixed_values(rotated(query), rotated(key), value, self.lengths)
        return self.out(mixed.transpose(1, 2).flatten(-2))


def mixed_values(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, lengths: list[list[int]] | None
) -> torch.Tensor:
    """(B, H, T, d) each -> (B, H, T, d); tokens behind the sequences of a row mix nothing."""
    if lengths is None:
        return functional.scaled_dot_product_attention(query, key, value, is_causal=True)
    rows = []
    for row, own in enumerate(lengths):
        parts = [*own, query.shape[2] - sum(own)]
        split = [x[row : row + 1].split(parts, dim=2) for x in (query, key, value)]
        mixed = [
            functional.scaled_dot_product_attention(q, k, v, is_causal=True)
            for q, k, v in zip(*(pieces[:-1] for pieces in split), strict=True)
        ]
        rows.append(torch.cat([*mixed, split[2][-1]], dim=2))
    return torch.cat(rows)


class MLP(nn.Module):
    """The two-matrix block after attention."""

    def __init__(self, sizes: GPTSizes) -> None:
        super().__init__()
        self.up = nn.Linear(sizes.width, 4 * sizes.width, bias=False)
        self.down = nn.Linear(4 * sizes.width, sizes.width, bias=False)

    def forward(self, x_BTD: torch.Tensor) -> torch.Tensor:
        """(B, T, D) -> (B, T, D)."""
        return self.down(functional.gelu(self.up(x_BTD)))


class Block(nn.Module):
    """One transformer layer."""

    def __init__(self, sizes: GPTSizes) -> None:
        super().__init__()
        self.attention_norm = nn.LayerNorm(sizes.width)
        self.attention = Attention(sizes)
        self.mlp_norm = nn.LayerNorm(sizes.width)
        self.mlp = MLP(sizes)

    def forward(self, x_BTD: torch.Tensor) -> torch.Tensor:
        """(B, T, D) -> (B, T, D)."""
        x_BTD = x_BTD + self.attention(self.attention_norm(x_BTD))
        return x_BTD + self.mlp(self.mlp_norm(x_BTD))


class Stage(nn.Module):
    """The consecutive layers of one pipeline stage; embedding on the first, head on the last."""

    def __init__(self, sizes: GPTSizes, layers: range, first: bool, last: bool) -> None:
        super().__init__()
        self.embedding = nn.Embedding(sizes.vocabulary, sizes.width) if first else None
        self.blocks = nn.ModuleDict({str(layer): Block(sizes) for layer in layers})
        self.norm = nn.LayerNorm(sizes.width) if last else None
        self.head = nn.Linear(sizes.width, sizes.vocabulary, bias=False) if last else None

    def parts(self) -> Iterator[nn.Module]:
        """Everything that computes: attention, MLP and norms of each block, and the edges."""
        for block in self.blocks.values():
            yield from block.children()
        yield from (part for part in (self.embedding, self.norm, self.head) if part is not None)

    def forward(self, x: torch.Tensor, lengths: torch.Tensor | None = None) -> torch.Tensor:
        """Tokens (B, T) or hidden states (B, T, D) -> hidden states or logits (B, T, V).

        `lengths` (B, S): of the sequences in each row, 0 behind the last one.
        """
        packed = None if lengths is None else [[n for n in row if n] for row in lengths.tolist()]
        for block in self.blocks.values():
            block.attention.lengths = packed
        if self.embedding is not None:
            x = self.embedding(x)
        for block in self.blocks.values():
            x = block(x)
        return x if self.norm is None or self.head is None else self.head(self.norm(x))


def stage_layers(num_layers: int, num_stages: int) -> list[range]:
    """Layers of each stage, as even as they go; raises ValueError with fewer layers than stages."""
    if num_layers < num_stages:
        raise ValueError(f"{num_layers} layers do not fill {num_stages} stages; raise --layers")
    edges = [num_layers * stage // num_stages for stage in range(num_stages + 1)]
    return [range(begin, end) for begin, end in pairwise(edges)]


def build_stage(sizes: GPTSizes, index: int, num_stages: int, seed: int) -> Stage:
    """One stage; every parameter depends on the seed and its own name, not on the stage's cut."""
    layers = stage_layers(sizes.num_layers, num_stages)[index]
    stage = Stage(sizes, layers, first=index == 0, last=index == num_stages - 1)
    for name, parameter in stage.named_parameters():
        if parameter.dim() == 2:
            random = torch.Generator().manual_seed(zlib.crc32(f"{seed} {name}".encode()))
            nn.init.normal_(parameter, std=0.02, generator=random)
    return stage


def token_loss(logits_BTV: torch.Tensor, target_BT: torch.Tensor) -> torch.Tensor:
    """Mean cross-entropy over all tokens; of logits that are a DTensor, too."""
    loss = functional.cross_entropy(logits_BTV.flatten(0, 1), target_BT.flatten())
    return loss.to_local() if hasattr(loss, "to_local") else loss


class Sequences(Dataset[torch.Tensor]):
    """Number sequences with a rule that can be learned; sequence i is a function of (seed, i).

    A slow-loader fault makes items of its steps take longer (steps of `items_per_step` items).
    """

    def __init__(
        self,
        sizes: GPTSizes,
        seed: int,
        num_items: int,
        items_per_step: int,
        faults: Sequence[Fault],
    ) -> None:
        self.sizes = sizes
        self.seed = seed
        self.num_items = num_items
        self.items_per_step = items_per_step
        self.faults = [fault for fault in faults if fault.kind == "slow-loader"]

    def __len__(self) -> int:
        return self.num_items

    def __getitem__(self, item: int) -> torch.Tensor:
        """Tokens (T + 1,): the input and, shifted by one, its target."""
        step = item // self.items_per_step
        for fault in self.faults:
            if fault.active(step):
                time.sleep(fault.ms / 1_000 / self.items_per_step)
        random = torch.Generator().manual_seed(self.seed * 1_000_003 + item)
        start, stride = torch.randint(1, self.sizes.vocabulary, (2,), generator=random).tolist()
        tokens = start + (stride % 7 + 1) * torch.arange(self.sizes.seq_len + 1)
        return tokens % self.sizes.vocabulary


def batches(loader: torch.utils.data.DataLoader[torch.Tensor]) -> Iterator[torch.Tensor]:
    """Batches without end: the loader again and again."""
    while True:
        yield from loader
