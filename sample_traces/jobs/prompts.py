"""How the small GPT answers a prompt while it trains, over all its pipeline stages."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh

from sample_traces.jobs.model import Stage
from sample_traces.jobs.schedules import num_stages, stage_indices


def prompt_forward(
    schedule: str, stages: Sequence[Any], mesh: DeviceMesh
) -> Callable[[torch.Tensor], torch.Tensor | None]:
    """Forward of ids (1, T) through all stages, called on every rank in the same way.

    Returns logits (1, T, V) where the last stage is, None on other ranks. Hidden states go from
    rank to rank, (1, T, D); with sequence parallel each tensor-parallel rank has its part of T, so
    ids are filled up to a multiple: a causal model does not look ahead.
    """
    pp, size, tp = mesh.get_local_rank("pp"), mesh["pp"].size(), mesh["tp"].size()
    group = mesh["pp"].get_group()
    ranks = dist.get_process_group_ranks(group)
    total = num_stages(schedule, size)
    owners = {
        index: stage for stage in range(size) for index in stage_indices(schedule, stage, size)
    }
    own: dict[int, Stage] = dict(zip(stage_indices(schedule, pp, size), stages, strict=True))

    def forward(ids_1T: torch.Tensor) -> torch.Tensor | None:
        length = ids_1T.shape[1]
        x: torch.Tensor | None = torch.nn.functional.pad(ids_1T, (0, -length % tp))
        for index in range(total):
            if owners[index] == pp:
                x = own[index](x)
                after = owners.get(index + 1, pp)
                if after != pp:
                    assert x is not None
                    sizes = torch.tensor(x.shape, device=x.device)
                    dist.send(sizes, ranks[after], group=group)
                    dist.send(x.contiguous(), ranks[after], group=group)
            elif owners.get(index + 1) == pp:
                sizes = torch.empty(3, dtype=torch.int64, device=ids_1T.device)
                dist.recv(sizes, ranks[owners[index]], group=group)
                x = torch.empty(sizes.tolist(), device=ids_1T.device)
                dist.recv(x, ranks[owners[index]], group=group)
        return x[:, :length] if x is not None and owners[total - 1] == pp else None

    return forward
