"""A run of a model with experts: EP 2 on four data-parallel ranks, one expert hot after a while."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt

from tests.runs_builder import T0, US, RunBuilder
from trace_hooks.layout import ParallelLayout

RANKS, STEPS, LAYERS, MICROBATCHES = 4, 40, 2, 2
EXPERTS, TOP_K, TOKENS = 8, 2, 2_048
"""Of a layer; tokens of a rank's step, over its micro-batches."""
EP_GROUPS = {21: (0, 1), 22: (2, 3)}
LOCAL = EXPERTS // 2
HOT_LAYER, HOT_EXPERT, HOT_FROM = 1, 5, 4
"""The expert lies on ranks 1 and 3."""
ATTENTION_US, EXPERTS_US, TRANSFER_US = 2_000.0, 3_000.0, 800.0
"""Of a layer and micro-batch; experts: where they share the tokens evenly."""

Loads = npt.NDArray[np.int64]


def expert_run(
    folder: Path, is_hot: bool = True, num_steps: int = STEPS, slow_rank: int = -1
) -> Path:
    """The run; without `is_hot` its routers are fair throughout. A slow rank has long backwards."""
    run = RunBuilder(folder, RANKS, ParallelLayout.from_sizes(dp=RANKS, ep=2))
    for group_id, ranks in EP_GROUPS.items():
        run.group(group_id, list(ranks), "ep")
    chance = np.random.default_rng(5)
    begin_us, calls = 0.0, 0
    for step in range(num_steps):
        loads_RLE = np.stack([_loads(chance, step, is_hot) for _ in range(RANKS)])
        _load_rows(run, step, begin_us, loads_RLE)
        begin_us, calls = _step(run, step, begin_us, calls, loads_RLE, slow_rank)
    run.rank_files()
    run.publish()
    return folder


def _loads(chance: np.random.Generator, step: int, is_hot: bool) -> Loads:
    """Tokens by (layer, expert) that one rank's routers choose."""
    share_LE = np.full((LAYERS, EXPERTS), 1 / EXPERTS)
    if is_hot and step >= HOT_FROM:  # nine tenths of the tokens go there, and anywhere else
        share_LE[HOT_LAYER] = (1 - 0.45) / (EXPERTS - 1)
        share_LE[HOT_LAYER, HOT_EXPERT] = 0.45
    return chance.multinomial(TOKENS * TOP_K, share_LE)


def _load_rows(run: RunBuilder, step: int, begin_us: float, loads_RLE: Loads) -> None:
    for rank in range(RANKS):
        for layer in range(LAYERS):
            run.add(
                "expert_load",
                rank,
                step,
                ts_ns=T0 + round(begin_us * US),
                chunk=-1,
                layer=layer,
                name=f"layers.{layer}.mlp.router",
                top_k=TOP_K,
                batch_tokens=TOKENS,
                tokens=loads_RLE[rank, layer].tolist(),
                dropped=0,
                first_expert=LOCAL * (rank % 2),
                local_experts=LOCAL,
                bias=[0.0] * EXPERTS,
                aux_loss=0.01,
            )


def _step(
    run: RunBuilder,
    step: int,
    begin_us: float,
    calls: int,
    loads_RLE: Loads,
    slow_rank: int,
) -> tuple[float, int]:
    """Forwards of all micro-batches, one backward; returns its end and the number of calls."""
    now = dict.fromkeys(range(RANKS), begin_us)
    call = calls
    for microbatch in range(MICROBATCHES):
        for layer in range(LAYERS):
            for group_id, ranks in EP_GROUPS.items():
                load_E = loads_RLE[list(ranks), layer].sum(axis=0)
                _layer(run, step, (microbatch, layer), (group_id, ranks, call), now, load_E)
            call += 2
    longer_us = 4_000 if slow_rank >= 0 and step >= HOT_FROM else 0
    end_us = max(now.values()) + 20_000 + longer_us
    for rank in range(RANKS):
        took_us = 18_000 + (longer_us if rank == slow_rank else 0)
        run.span(rank, step, "backward", now[rank], now[rank] + took_us)
        run.step(rank, step, begin_us, end_us)
    return end_us, call


def _layer(
    run: RunBuilder,
    step: int,
    place: tuple[int, int],
    group: tuple[int, tuple[int, ...], int],
    now: dict[int, float],
    load_E: Loads,
) -> None:
    """Attention, dispatch, experts and combine of one EP group: `now` moves on."""
    (microbatch, layer), (group_id, ranks, call) = place, group
    own = {"microbatch": microbatch}
    for rank in ranks:
        run.span(rank, step, "forward", now[rank], now[rank] + ATTENTION_US,
                 name=f"layers.{layer}.attention", depth=1, **own)  # fmt: skip
        now[rank] += ATTENTION_US
    begun = dict(now)
    _all_to_all(run, step, (group_id, ranks, call), now, own)
    for rank in ranks:
        first = LOCAL * (rank % 2)
        now[rank] += EXPERTS_US * 2 * load_E[first : first + LOCAL].sum() / load_E.sum()
    _all_to_all(run, step, (group_id, ranks, call + 1), now, own)
    for rank in ranks:
        run.span(rank, step, "forward", begun[rank], now[rank], name=f"layers.{layer}.mlp",
                 depth=1, **own)  # fmt: skip


def _all_to_all(
    run: RunBuilder,
    step: int,
    group: tuple[int, tuple[int, ...], int],
    now: dict[int, float],
    own: dict[str, int],
) -> None:
    group_id, ranks, call = group
    end_us = max(now[rank] for rank in ranks) + TRANSFER_US
    for rank in ranks:
        run.collective(rank, step, group_id, call, now[rank], end_us, op="all_to_all",
                       num_bytes=1 << 20)  # fmt: skip
        run.span(rank, step, "ep_comm", now[rank], end_us, name="all_to_all", depth=2,
                 group_id=group_id, coll_seq=call, **own)  # fmt: skip
        now[rank] = end_us
