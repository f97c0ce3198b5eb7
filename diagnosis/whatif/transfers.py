"""Communication without the waiting for the others, and how long ops should take.

Transfer of a member = its own end - the latest start of its group. What remains of its duration is
waiting. Source: sections 3 and 5 of the paper's method.
"""

from __future__ import annotations

import numpy as np

from diagnosis.whatif.graph import Graph
from diagnosis.whatif.operations import Floats, Operations
from diagnosis.whatif.optypes import IDEAL_BY_MEAN

LEAST_TRANSFER_S = -0.01
"""At or below it a transfer counts as 0; the noise of clocks above it is kept."""


def transfers(ops: Operations, graph: Graph) -> Floats:
    """Own time of every op, s, (O, S, D): durations of local ops, transfers of all others."""
    own_OSD = ops.duration_OSD.astype(np.float64)
    end_OSD = ops.end_OSD
    for node in graph.nodes:
        if node.is_local:
            continue
        members = list(node.ops)
        start_SD = ops.start_OSD[members[0]]
        for op in members[1:]:
            start_SD = np.maximum(start_SD, ops.start_OSD[op])
        if node.over_dp:
            start_SD = start_SD.max(axis=-1, keepdims=True)
        for op in members:
            own_SD = end_OSD[op] - start_SD
            own_SD[own_SD <= LEAST_TRANSFER_S] = 0.0
            own_OSD[op] = own_SD
    return own_OSD


def of_members(ops: Operations, own_OSD: Floats) -> Floats:
    """Own time of every op if all members of its cell took as long as each of them, s,
    (O, S, D, T): that of the cell without what others make the member wait. NaN: not its op.
    """
    if ops.members is None:
        return own_OSD[..., None]
    least_OSD1 = np.minimum(own_OSD, 0.0)[..., None]
    own_OSDT: Floats = np.maximum(own_OSD[..., None] - ops.members.lag_OSDT, least_OSD1)
    return own_OSDT


def ideals(ops: Operations, own_OSD: Floats, own_OSDT: Floats) -> Floats:
    """Ideal own time by op type, s: one number over all steps, dp ranks, stages and chunks.

    A mean is that of the cells, a median that of the transfers of all ranks.
    """
    ideal = []
    for code, optype in enumerate(ops.optypes):
        of_type_O = ops.type_O == code
        by_mean = optype in IDEAL_BY_MEAN
        ideal.append(float(own_OSD[of_type_O].mean() if by_mean else _median(own_OSDT[of_type_O])))
    return np.array(ideal)


def _median(own_OSDT: Floats) -> float:
    return float(np.median(own_OSDT[~np.isnan(own_OSDT)]))
