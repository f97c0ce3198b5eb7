"""How long a step of a pipeline takes whose micro-batches differ."""

from __future__ import annotations

import numpy as np

from diagnosis.statistics.rank_tables import Floats


def pipeline_time(forward_MRS: Floats, backward_MRS: Floats, num_stages: int) -> Floats:
    """How long 1F1B takes over equal stages, without transfers: (R, S), in the unit of
    the work of each micro-batch on one stage.
    """
    work = {True: forward_MRS, False: backward_MRS}
    ahead = [_one_f_one_b(num_stages - p - 1, len(forward_MRS)) for p in range(num_stages)]
    free_PRS = np.zeros((num_stages, *forward_MRS.shape[1:]))
    ended: dict[tuple[bool, int, int], Floats] = {}
    while any(ahead):
        for stage, left in enumerate(ahead):
            while left:
                is_forward, m = left[0]
                giver = stage - 1 if is_forward else stage + 1
                ready_RS = ended.get((is_forward, giver, m))
                if ready_RS is None and 0 <= giver < num_stages:
                    break
                begin_RS = np.maximum(free_PRS[stage], 0.0 if ready_RS is None else ready_RS)
                ended[is_forward, stage, m] = free_PRS[stage] = begin_RS + work[is_forward][m]
                left.pop(0)
    longest_RS: Floats = free_PRS.max(axis=0)
    return longest_RS


def _one_f_one_b(warm_up: int, num: int) -> list[tuple[bool, int]]:
    """Order of (is forward, micro-batch) on a stage."""
    warm_up = min(warm_up, num)
    order = [(True, m) for m in range(warm_up)]
    for m in range(num):
        order += [(True, m + warm_up)] * (m + warm_up < num) + [(False, m)]
    return order
