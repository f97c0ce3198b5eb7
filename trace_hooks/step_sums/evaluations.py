"""Takes evaluations out of the steps around them.

A job evaluates its model between two steps, or within one: that time is neither the step's nor any
of its parts, and what ran in it (forwards, communication, fetches) is no work of the step. A
checkpoint saved meanwhile stays a checkpoint.

Shape suffixes: S spans, V evaluations.
"""

from __future__ import annotations

import numpy as np

from trace_hooks.schema import KINDS
from trace_hooks.step_sums.intervals import Bools, Ints

EVALUATION = KINDS.index("evaluation")
CHECKPOINT = KINDS.index("checkpoint")


def outside_evaluations(group_S: Ints, begin_S: Ints, end_S: Ints, kind_S: Ints) -> Bools:
    """Spans that began in no other span that is an evaluation, and saves of checkpoints.

    Spans of different groups (a rank, or a rank's step) never meet.
    """
    keep_S = np.ones(kind_S.size, dtype=np.bool_)
    is_evaluation_S = kind_S == EVALUATION
    for group in np.unique(group_S[is_evaluation_S]):
        mine = np.flatnonzero(group_S == group)
        found = mine[is_evaluation_S[mine]]
        found = found[np.lexsort((-end_S[found], begin_S[found]))]
        latest_V = np.maximum.accumulate(end_S[found])
        is_outermost_V = np.append(True, begin_S[found][1:] >= latest_V[:-1])
        outermost = found[is_outermost_V]
        at = np.searchsorted(begin_S[outermost], begin_S[mine], side="right") - 1
        is_in = (at >= 0) & (begin_S[mine] < end_S[outermost[np.maximum(at, 0)]])
        keep_S[mine] = ~is_in | (kind_S[mine] == CHECKPOINT)
        keep_S[outermost] = True
    return keep_S
