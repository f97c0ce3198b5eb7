"""What a schedule is: the operations of each device, in their order."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

FORWARD, BACKWARD, WEIGHTS = "F", "B", "W"
"""Where WEIGHTS run apart, BACKWARD is of the inputs alone."""


class Op(NamedTuple):
    """One operation of a micro-batch on a (virtual) stage."""

    kind: str
    stage: int
    microbatch: int


@dataclass(frozen=True)
class Plan:
    """`orders`: of each device its operations. `home`: of each stage the physical stage of which it
    is a part, `chunks` parts each. `is_split`: backwards of weights run apart.
    """

    orders: tuple[tuple[Op, ...], ...]
    home: tuple[int, ...]
    chunks: int = 1
    is_split: bool = False

    @property
    def num_stages(self) -> int:
        """Virtual stages."""
        return len(self.home)

    @property
    def is_decoupled(self) -> bool:
        """Whether forwards and backwards of a stage have devices of their own."""
        return len(self.orders) > len(set(self.home))

    @cached_property
    def device_of(self) -> dict[Op, int]:
        """Index of the device that runs an operation."""
        return {op: device for device, ops in enumerate(self.orders) for op in ops}

    def before(self, op: Op) -> Iterator[Op]:
        """Operations that must have ended before one begins, but for the device's own order."""
        kind, stage, microbatch = op
        if kind == FORWARD:
            if stage > 0:
                yield Op(FORWARD, stage - 1, microbatch)
        elif kind == BACKWARD:
            yield Op(FORWARD, stage, microbatch)
            if stage < self.num_stages - 1:
                yield Op(BACKWARD, stage + 1, microbatch)
        else:
            yield Op(BACKWARD, stage, microbatch)
