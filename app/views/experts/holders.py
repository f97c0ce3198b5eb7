"""Where experts lie, and how evenly the ranks that hold them share the tokens.

L layers, E experts of the widest layer.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from diagnosis.experts.load import LayerLoad, max_violation, slice_loads
from ingest.run import Run
from ingest.stopping import Stop

_LATEST = 2
"""Steps in which they are looked up: of a live run some ranks have not written the last one."""


@dataclass(frozen=True)
class Slice:
    """Experts `first` to `last` of a layer. `rank`: the lowest that holds them; `num_ranks` do."""

    first: int
    last: int
    rank: int
    num_ranks: int


Slices = Mapping[int, Sequence[Slice]]
"""By layer, in order of the experts."""


def slices_of(
    run: Run, attempt: int, layers: Sequence[LayerLoad], stop: Stop | None = None
) -> Slices:
    """Those of the newest steps of the layers."""
    found = defaultdict[int, list[Slice]](list)
    experts = {one.layer: one.experts for one in layers}
    last_step = max((int(one.step_S[-1]) for one in layers), default=None)
    if last_step is None:
        return found
    steps = {"step_min": last_step - _LATEST + 1, "step_max": last_step}
    for row in run.ask("expert_places", attempt=attempt, **steps, stop=stop).to_pylist():
        last = row["first_expert"] + row["local_experts"] - 1
        if last < experts.get(row["layer"], 0):
            held = Slice(row["first_expert"], last, row["ranks"][0], row["num_ranks"])
            found[row["layer"]].append(held)
    return found


@dataclass(frozen=True)
class Holders:
    """`rank_LE`: lowest rank that holds an expert, -1 unknown; `count_LE`: ranks that hold it."""

    rank_LE: npt.NDArray[np.int32]
    count_LE: npt.NDArray[np.int32]


def holders_of(layers: Sequence[LayerLoad], slices: Slices) -> Holders:
    """By layer and expert."""
    shape = len(layers), max((one.experts for one in layers), default=0)
    holders = Holders(np.full(shape, -1, dtype=np.int32), np.zeros(shape, dtype=np.int32))
    for row, one in enumerate(layers):
        for held in slices.get(one.layer, ()):
            holders.rank_LE[row, held.first : held.last + 1] = held.rank
            holders.count_LE[row, held.first : held.last + 1] = held.num_ranks
    return holders


@dataclass(frozen=True)
class Balance:
    """A layer's tokens over the EP ranks. `ratio`: most tokens of one / mean, mean over the
    steps; `most`: the slice with most tokens of all steps; `share`: its part; `even`: that of an
    even layer.
    """

    layer: int
    ratio: float
    most: Slice
    share: float
    even: float


def balance_of(layers: Sequence[LayerLoad], slices: Slices) -> list[Balance]:
    """Layers whose experts lie on several ranks, in order."""
    return [
        _balance(one, slices[one.layer]) for one in layers if len(slices.get(one.layer, ())) > 1
    ]


def _balance(one: LayerLoad, held: Sequence[Slice]) -> Balance:
    parts = [(part.first, part.last - part.first + 1) for part in held]
    tokens_SP = slice_loads(one.tokens_SE, parts)
    total_P = tokens_SP.sum(axis=0)
    most = int(total_P.argmax())
    return Balance(
        layer=one.layer,
        ratio=1 + float(np.nan_to_num(np.nanmean(max_violation(tokens_SP)))),
        most=held[most],
        share=float(total_P[most] / max(total_P.sum(), 1)),
        even=1 / len(held),
    )
