"""How long every operation of a synthetic job takes by itself."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Ns = npt.NDArray[np.int64]
Float = npt.NDArray[np.float64]

MS = 1_000_000


@dataclass
class Durations:
    """Nanoseconds each operation takes once it can begin. Shapes: the package's docstring.

    Transfers are times of the wire, without waiting for the other members.
    """

    forward_MSPDT: Float
    backward_MSPDT: Float
    gc_MSPDT: Float  # a pause inside the forward, comes on top of it
    wall_per_cpu_SPDT: Float
    tp_SPD: Float  # all-reduce at the end of a forward or backward
    pp_forward_SPDT: Float  # from this stage to the next
    pp_backward_SPDT: Float  # from this stage to the one before
    gather_SPT: Float
    scatter_SPT: Float
    norm_S: Float
    data_SPDT: Float
    skew_SPDT: Float  # host delay before the reduce-scatter
    optimizer_SPDT: Float
    work_MSD: Float  # share of a micro-batch's work, 1 on average
    checkpoint_SPDT: Float  # saving, behind the optimizer
    flap_SPDT: Float  # on top of the first forward transfer from this stage to the next
    attention_S: Float  # share of compute that attention takes
    hooks_S: Float  # what recording costs a rank
