"""Which ranks hold an expert, and what it costs that some of them compute longer than others."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from diagnosis.findings import Cost, cost_of
from diagnosis.statistics.units import named_ranks

MOST_NAMED = 8


class Holders:
    """Where the experts of each layer lie, by an answer of the question expert_places."""

    def __init__(self, places: pa.Table) -> None:
        self._slices: dict[int, list[dict[str, Any]]] = {}
        for row in places.to_pylist():
            self._slices.setdefault(row["layer"], []).append(row)

    def slices(self, layer: int) -> list[dict[str, Any]]:
        """Rows of the layer, by their first expert; none where it is not known or not divided."""
        rows = self._slices.get(layer, [])
        return rows if len(rows) > 1 else []

    def ranks(self, layer: int, expert: int) -> tuple[int, ...]:
        """Ranks that hold the expert, while others do not; at most 64 are known."""
        return tuple(
            rank
            for row in self.slices(layer)
            if row["first_expert"] <= expert < row["first_expert"] + row["local_experts"]
            for rank in row["ranks"]
        )


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
            step_ms += [row["step_ms"] for row in rows if row["step_ms"] is not None]
    if not longer or not step_ms or np.median(longer) <= 0:
        return None
    steps = [row for row in times.to_pylist() if row["first_step"] is not None]
    num_steps = max(row["last_step"] - row["first_step"] + 1 for row in steps)
    return cost_of(float(np.median(longer)), float(np.median(step_ms)), num_steps, len(steps))


def _together(times: pa.Table) -> list[list[dict[str, Any]]]:
    """Rows with a time of experts, by EP group; without groups, by stage."""
    groups: dict[tuple[Any, ...], list[Mapping[str, Any]]] = {}
    for row in times.to_pylist():
        if row["expert_step_ms"] is not None:
            groups.setdefault((row["group_id"], row["stage"]), []).append(row)
    return [list(map(dict, rows)) for rows in groups.values()]
