"""Which ranks hold an expert, and what it costs that some of them compute longer than others.

The holders of an expert are the ranks with the same EP rank, one of each EP group.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from diagnosis.experts.load import LayerLoad, RouterKey
from diagnosis.findings import Cost, cost_of
from diagnosis.statistics.units import named_ranks

MOST_NAMED = 8


class Holders:
    """Where the experts of each layer lie, by an answer of the question expert_places."""

    def __init__(self, places: pa.Table) -> None:
        self._ep_ranks: dict[RouterKey, list[dict[str, Any]]] = {}
        for row in places.to_pylist():
            self._ep_ranks.setdefault((row["layer"], row["name"]), []).append(row)

    def ep_ranks(self, load: LayerLoad) -> list[dict[str, Any]]:
        """Rows of the layer, one for each EP rank; none where it is not known or not divided."""
        rows = self._ep_ranks.get(load.key, [])
        return rows if len(rows) > 1 else []

    def ranks(self, load: LayerLoad, expert: int) -> tuple[int, ...]:
        """Ranks that hold the expert of the layer, while others do not."""
        return tuple(
            rank
            for row in self.ep_ranks(load)
            if row["first_expert"] <= expert < row["first_expert"] + row["local_experts"]
            for rank in row["ranks"]
        )

    def num_layers(self, rank: int) -> int:
        """Layers of which the rank holds experts."""
        return len(self._held.get(rank, ()))

    def fellows(self, rank: int) -> set[int]:
        """The other ranks that hold the same experts, of every layer."""
        held = self._held.get(rank, [])
        return set.intersection(*(set(row["ranks"]) for row in held)) - {rank} if held else set()

    @cached_property
    def _held(self) -> dict[int, list[dict[str, Any]]]:
        """Rows by rank."""
        found: dict[int, list[dict[str, Any]]] = {}
        for rows in self._ep_ranks.values():
            for row in rows:
                for rank in row["ranks"]:
                    found.setdefault(rank, []).append(row)
        return found


def named_holders(ranks: Iterable[int]) -> str:
    """Ranks in words: "rank 5", "ranks 1, 3 and 40 more"; nothing of none."""
    every = sorted(set(ranks))
    more = len(every) - MOST_NAMED
    return named_ranks(every[:MOST_NAMED]) + (f" and {more} more" if more > 0 else "")


def relative_times(times: pa.Table) -> dict[int, float]:
    """Time of each rank in experts / mean over its EP group (or its stage), of a step."""
    found: dict[int, float] = {}
    for rows in _together(times):
        mean = float(np.mean([row["expert_step_ms"] for row in rows]))
        if mean > 0 and len(rows) > 1:
            found |= {row["rank"]: row["expert_step_ms"] / mean for row in rows}
    return found


def cost_of_holders(times: pa.Table, ranks: Iterable[int]) -> Cost | None:
    """What steps take longer because these ranks compute experts longer than others of their EP
    groups: the median over groups. None where that was not recorded, or is not so.
    """
    holders = set(ranks)
    longer, step_ms = [], []
    for rows in _together(times):
        own = [row["expert_step_ms"] for row in rows if row["rank"] in holders]
        if own and len(rows) > 1:
            longer.append(max(own) - float(np.mean([row["expert_step_ms"] for row in rows])))
            step_ms += [row["step_ms"] for row in rows]
    if not longer or not step_ms or np.median(longer) <= 0:
        return None
    steps = [row for row in times.to_pylist() if row["first_step"] is not None]
    num_steps = max(row["last_step"] - row["first_step"] + 1 for row in steps)
    return cost_of(float(np.median(longer)), float(np.median(step_ms)), num_steps, len(steps))


def _together(times: pa.Table) -> list[list[dict[str, Any]]]:
    """Rows with a time of experts and of their steps, by EP group; without groups, by stage."""
    groups: dict[tuple[Any, ...], list[Mapping[str, Any]]] = {}
    for row in times.to_pylist():
        if row["expert_step_ms"] is not None and row["step_ms"] is not None:
            groups.setdefault((row["group_id"], row["stage"]), []).append(row)
    return [list(map(dict, rows)) for rows in groups.values()]
