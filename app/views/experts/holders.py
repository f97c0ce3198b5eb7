"""Where experts lie, and how evenly EP ranks share the tokens.

The experts of a layer are divided among the ranks of an EP group; those with the same EP rank in
several groups hold the same experts. L layers, E experts of the widest layer.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow.compute as pc

from diagnosis.experts.load import LayerLoad, RouterKey, ep_rank_loads, max_violation
from ingest.run import Run
from ingest.stopping import Stop

_LATEST = 2
"""Steps in which they are looked up: of a live run some ranks have not written the last one."""


@dataclass(frozen=True)
class EpRank:
    """It has experts `first` to `last` of a layer. `rank`: the lowest global rank that holds them;
    `num_ranks` do.
    """

    first: int
    last: int
    rank: int
    num_ranks: int


EpRanks = Mapping[RouterKey, Sequence[EpRank]]
"""By layer and router, in order of the experts."""


def ep_ranks_of(
    run: Run, attempt: int, layers: Sequence[LayerLoad], stop: Stop | None = None
) -> EpRanks:
    """Those of the newest steps of the layers."""
    found = defaultdict[RouterKey, list[EpRank]](list)
    experts = {one.key: one.experts for one in layers}
    last_step = max((int(one.step_S[-1]) for one in layers), default=None)
    if last_step is None:
        return found
    steps = {"step_min": last_step - _LATEST + 1, "step_max": last_step}
    places = run.ask("expert_places", attempt=attempt, **steps, stop=stop)
    lowest = pc.list_element(places["ranks"], 0).to_pylist()
    for row, rank in zip(places.drop_columns("ranks").to_pylist(), lowest, strict=True):
        last, key = row["first_expert"] + row["local_experts"] - 1, (row["layer"], row["name"])
        if last < experts.get(key, 0):
            found[key].append(EpRank(row["first_expert"], last, rank, row["num_ranks"]))
    return found


@dataclass(frozen=True)
class LowestHolders:
    """`rank_LE`: lowest rank that holds an expert, -1 unknown; `count_LE`: ranks that hold it."""

    rank_LE: npt.NDArray[np.int32]
    count_LE: npt.NDArray[np.int32]


def holders_of(layers: Sequence[LayerLoad], ep_ranks: EpRanks) -> LowestHolders:
    """By layer and expert."""
    shape = len(layers), max((one.experts for one in layers), default=0)
    holders = LowestHolders(np.full(shape, -1, dtype=np.int32), np.zeros(shape, dtype=np.int32))
    for row, one in enumerate(layers):
        for held in ep_ranks.get(one.key, ()):
            holders.rank_LE[row, held.first : held.last + 1] = held.rank
            holders.count_LE[row, held.first : held.last + 1] = held.num_ranks
    return holders


@dataclass(frozen=True)
class LayerBalance:
    """A layer's tokens over the EP ranks. `ratio`: most tokens of one / mean, mean over the
    steps; `most`: the one with most tokens of all steps; `share`: its part of the choices; `even`:
    that of an even layer.
    """

    layer: int
    name: str
    router: int
    num_routers: int
    ratio: float
    most: EpRank
    share: float
    even: float


def balance_of(layers: Sequence[LayerLoad], ep_ranks: EpRanks) -> list[LayerBalance]:
    """Layers whose experts lie on several ranks, in order."""
    return [
        _balance(one, ep_ranks[one.key]) for one in layers if len(ep_ranks.get(one.key, ())) > 1
    ]


def _balance(one: LayerLoad, held: Sequence[EpRank]) -> LayerBalance:
    parts = [(part.first, part.last - part.first + 1) for part in held]
    tokens_SP = ep_rank_loads(one.tokens_SE, parts)
    total_P = tokens_SP.sum(axis=0)
    most = int(total_P.argmax())
    return LayerBalance(
        layer=one.layer,
        name=one.name,
        router=one.router,
        num_routers=one.num_routers,
        ratio=1 + float(np.nan_to_num(np.nanmean(max_violation(tokens_SP)))),
        most=held[most],
        share=float(total_P[most] / max(total_P.sum(), 1)),
        even=1 / len(held),
    )
