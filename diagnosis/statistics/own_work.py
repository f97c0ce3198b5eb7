"""What ranks compute by themselves, where a part of their compute may be waiting for others.

Source: late arrival names the culprit (MegaScale, 2402.15627); the rule is ours. Assumes: forwards
wait for nobody. Shape suffixes: see diagnosis/statistics/peers.py.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from diagnosis.statistics.hidden_waits import BORDER
from diagnosis.statistics.peers import KNOWN_SHARE, Work


def own_work(work: Work) -> Work:
    """The work with forwards alone as its measure where waiting for other ranks lies in compute.

    Where launches are asynchronous, a rank waits for the others in its last backward, and its
    collectives are seen only from when the last member is there. Forwards are free of that. Whoever
    computes longer makes the others wait at least for what its forwards take longer; where groups
    recorded far less waiting than that, the rest of it lies elsewhere.
    """
    is_known = np.isfinite(work.forward_RS[np.isfinite(work.work_RS)])
    if not is_known.size or is_known.mean() < KNOWN_SHARE:
        return work
    is_shown = np.isfinite(work.wait_RS).any()
    if not is_shown or not np.nanmean(work.wait_RS) < BORDER * _apart(work):
        return work
    unknown_RS = np.full(work.work_RS.shape, np.nan)
    return replace(work, work_RS=work.forward_RS, wait_caused_RS=unknown_RS, measure="forward")


def _apart(work: Work) -> float:
    """What ranks have less of forwards than the longest of their stage, mean over all steps, ms."""
    pp_R = work.ranks.coords_R["pp"]
    shown_RS = np.where(np.isfinite(work.forward_RS), work.forward_RS, -np.inf)
    less = [
        shown_RS[pp_R == stage].max(axis=0) - work.forward_RS[pp_R == stage]
        for stage in np.unique(pp_R)
    ]
    cells = np.concatenate([rows.ravel() for rows in less])
    cells = cells[np.isfinite(cells)]
    return float(cells.mean()) if cells.size else np.nan
