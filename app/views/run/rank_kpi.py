"""A tile for one rank: a metric over the steps on the page, against the median of its peers."""

from __future__ import annotations

import math

import numpy as np

from app.views.ranks.grid import grid
from app.views.ranks.metric_matrix import Cells
from app.views.ranks.scales import IN_NOISE, NO_DATA
from app.views.run.kpi import Kpi


def kpi_of_rank(cells: Cells, rank: int) -> Kpi | None:
    """The tile; None where the metric of this rank is unknown in these steps."""
    shown = grid(cells)
    (rows,) = np.nonzero(shown.places.rank_R == rank)
    if not rows.size or shown.code_R[rows[0]] == NO_DATA:
        return None
    row, metric = int(rows[0]), cells.metric
    digits = metric.decimals
    peers = float(shown.peers_R[row])
    known = not math.isnan(peers)
    return Kpi(
        "finding",
        f"{metric.title}, rank {rank}",
        f"{float(shown.value_R[row]):,.{digits}f}",
        metric.unit,
        f"median of its peers {peers:,.{digits}f} {metric.unit}" if known else "no peers known",
        f"{metric.meaning} Of the rank that the finding names.",
        _tone(int(shown.code_R[row])),
        _series(cells, row),
        peers if known else None,
        "its peers",
    )


def _tone(code: int) -> str:
    """Bad where it is beyond noise and above the peers, as the colours of the grid."""
    return "bad" if code > IN_NOISE and code % 2 else "plain"


def _series(cells: Cells, row: int) -> tuple[tuple[int, float], ...]:
    pairs = zip(cells.steps_S, cells.value_RS[row], strict=True)
    return tuple((int(step), float(value)) for step, value in pairs if not math.isnan(value))
