"""The grid of ranks: each rank at its coordinates in the parallel layout, coloured by one metric.

Shape suffixes: R rank, S step.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from app.views.ranks import scales
from app.views.ranks.metric_matrix import LAST_STEPS, Cells
from app.views.ranks.peers import spread_within_step
from app.views.ranks.rank_places import Places
from app.views.ranks.scales import Bytes, Floats, Ints
from diagnosis.statistics.natural_order import natural
from trace_hooks.layout import EXPERT_AXES

UNKNOWN = 65_535


@dataclass(frozen=True)
class Grid:
    """Ranks with one value each, over the steps first..last."""

    places: Places
    code_R: Bytes
    value_R: Floats
    peers_R: Floats
    """median of the peers, in the metric's own unit (1 for ratios)"""
    steps: tuple[int, int] | None
    legend: dict[str, Any]

    def arrays(self) -> dict[str, np.ndarray]:
        """Arrays for app.web.arrays.pack_arrays: one byte per rank, and the numbers for the
        tooltip.
        """
        return {"code": self.code_R, "value": self.value_R, "peers": self.peers_R}

    def meta(self) -> dict[str, Any]:
        """The metadata: steps and legend."""
        return {"steps": None if self.steps is None else list(self.steps), "legend": self.legend}


def grid(cells: Cells) -> Grid:
    """One value per rank: median of the slowdown, mean of times, over the cells' steps."""
    num_steps = len(cells.steps_S)
    if not cells.has_values:
        empty = np.full(len(cells.places.rank_R), np.nan, dtype=np.float32)
        none = np.zeros(len(empty), dtype=np.uint8)
        legend = scales.legend(cells.metric, cells.step_ms, float("nan"))
        return Grid(cells.places, none, empty, empty, None, legend)
    mean = _median if cells.metric.is_ratio else _mean
    value_R, peers_R = mean(cells.value_RS), mean(cells.peers_RS)
    deviation_R = mean(cells.deviation())
    factor = scales.noise_factor(len(value_R), num_steps)
    spread_R = _spread(cells, deviation_R)
    code_R = scales.codes(deviation_R, factor * spread_R, cells.metric.full)
    typical = float(np.nanmedian(spread_R)) if not np.isnan(spread_R).all() else float("nan")
    if cells.metric.is_ratio:
        peers_R = np.where(np.isnan(peers_R), np.nan, 1).astype(np.float32)
    return Grid(
        cells.places,
        code_R,
        value_R,
        peers_R,
        (int(cells.steps_S[0]), int(cells.steps_S[-1])),
        scales.legend(cells.metric, cells.step_ms, factor * typical),
    )


def _spread(cells: Cells, deviation_R: Floats) -> Floats:
    """Spread of the peers against which a rank is judged.

    Slowdown: the spread over single steps, as in slowest_ranks. Times differ permanently from rank
    to rank (roles, positions in the schedule): the spread of the peers' means, but at least the
    spread that means of this many steps have by chance.
    """
    spread_R = np.full(len(deviation_R), np.nan, dtype=np.float32)
    *_, (part, group_G) = cells.parts()  # of the newest attempt
    rows, columns = part[0][:, 0], part[1][0, -LAST_STEPS:]
    over_steps, in_step = cells.spreads(cells.deviation(np.ix_(rows, columns)), group_G)
    if len(cells.steps_S) == 1:
        spread_R[rows] = np.fmax(over_steps, in_step)[:, 0]
    elif cells.metric.is_ratio:
        spread_R[rows] = over_steps[:, -1]
    else:
        by_chance_G = over_steps[:, -1] / np.sqrt(len(cells.steps_S))
        of_means_G = spread_within_step(deviation_R[rows, None], group_G)[:, 0]
        spread_R[rows] = np.fmax(by_chance_G, of_means_G)
    return spread_R


def _mean(value_RS: Floats) -> Floats:
    count_R = (~np.isnan(value_RS)).sum(axis=1)
    sum_R = np.nansum(value_RS, axis=1, dtype=np.float64)
    return np.where(count_R > 0, sum_R / np.maximum(count_R, 1), np.nan).astype(np.float32)


def _median(value_RS: Floats) -> Floats:
    known_R = ~np.isnan(value_RS).all(axis=1)
    median_R = np.full(len(value_RS), np.nan, dtype=np.float32)
    median_R[known_R] = np.nanmedian(value_RS[known_R], axis=1)
    return median_R


def layout_arrays(places: Places) -> dict[str, np.ndarray]:
    """Ranks and coordinates (65535: unknown) for the browser."""
    coords = {
        axis: np.where(index_R < 0, UNKNOWN, index_R).astype(np.uint16)
        for axis, index_R in (places.coords | places.experts).items()
    }
    return {"rank": places.rank_R.astype(np.uint32), "host": _host_numbers(places), **coords}


def layout_meta(places: Places) -> dict[str, Any]:
    """Sizes of the axes in use, those of experts apart; names of the hosts; the reason if there is
    no layout.
    """
    sizes = {axis: int(index_R.max(initial=-1)) + 1 for axis, index_R in places.coords.items()}
    experts = {
        axis: int(places.experts[axis].max()) + 1 for axis in EXPERT_AXES if axis in places.experts
    }
    reason = None
    if not places.has_layout:
        reason = (
            "The parallel layout of this run is unknown, so ranks are ordered by host and number."
        )
    return {
        "axes": {axis: size for axis, size in sizes.items() if size > (axis == "cp")},
        "experts": experts,
        "hosts": sorted(set(places.hosts), key=natural),
        "reason": reason,
        "judged_steps": LAST_STEPS,
    }


def _host_numbers(places: Places) -> Ints:
    names = {name: number for number, name in enumerate(sorted(set(places.hosts), key=natural))}
    return np.array([names[host] for host in places.hosts], dtype=np.uint32)
