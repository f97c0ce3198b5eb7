"""Ping-pong of micro-batches between attention and experts: how long a pass takes, who idles.

A batch is cut into m micro-batches. While the experts compute one, attention computes the next.
Each goes through L layers: attention (Ta), dispatch (Tc), experts (Te), combine (Tc). Both sides
and both directions of the network do one micro-batch at a time.

With R = Ta + Te + 2 Tc, the round trip of a layer, and Tf = max(Ta, Te, Tc), the slowest part:

    T = R + (L - 1) max(R, m Tf) + (m - 1) Tf

For m Tf >= R that is R + Tf (m L - 1), equation 5 of MegaScale-Infer (2504.02263). With fewer
micro-batches, which the paper leaves out, it is R L + Tf (m - 1): each layer waits for the round
trip. The paper's condition m Tf >= 2 (Tf + Tc) is that of sides that take equally long; of unequal
ones m Tf >= R is enough. tests/diagnosis/experts/test_ping_pong.py has a simulation of it.

Where the same ranks do both, as in training, other times hold: diagnosis/experts/same_ranks.py.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

ALMOST = 1e-9
EQUAL_SIDES = 0.1
"""Sides that differ by less than this part of the longer one take equally long."""


@dataclass(frozen=True)
class PingPong:
    """One pass of m micro-batches through L layers. Times of one micro-batch and layer, any unit.

    Raises ValueError for times that are not positive, or less than one micro-batch or layer.
    """

    attention: float
    experts: float
    transfer: float
    micro_batches: int
    layers: int

    def __post_init__(self) -> None:
        for name in ("attention", "experts"):
            value = getattr(self, name)
            if not (math.isfinite(value) and value > 0):
                raise ValueError(f"{name} takes {value}; give a time above 0")
        if not (math.isfinite(self.transfer) and self.transfer >= 0):
            raise ValueError(f"a transfer takes {self.transfer}; give a time of 0 or more")
        if self.micro_batches < 1 or self.layers < 1:
            raise ValueError(
                f"{self.micro_batches} micro-batches and {self.layers} layers; give at least 1"
            )

    @property
    def round_trip(self) -> float:
        """R: a micro-batch alone through a layer."""
        return self.attention + self.experts + 2 * self.transfer

    @property
    def slowest(self) -> float:
        """Tf: the longest of attention, experts and one transfer."""
        return max(self.attention, self.experts, self.transfer)

    @property
    def total(self) -> float:
        """T: from the first attention to the last combine."""
        each_layer = max(self.round_trip, self.micro_batches * self.slowest)
        return (
            self.round_trip
            + (self.layers - 1) * each_layer
            + (self.micro_batches - 1) * self.slowest
        )

    @property
    def are_equal(self) -> bool:
        """First condition: attention and experts take equally long."""
        longer = max(self.attention, self.experts)
        return abs(self.attention - self.experts) <= EQUAL_SIDES * longer

    @property
    def is_transfer_hidden(self) -> bool:
        """Second condition: a transfer is shorter than the longer side, or all of computing where
        both run on the same ranks.
        """
        return self.transfer < self.slowest

    @property
    def are_enough(self) -> bool:
        """Third condition: there are enough micro-batches to keep the slowest part busy."""
        return self.micro_batches >= self.least_micro_batches

    @property
    def least_micro_batches(self) -> int:
        """The fewest micro-batches with which the slowest part is always busy."""
        return math.ceil(self.round_trip / self.slowest - ALMOST)

    @property
    def attention_idle(self) -> float:
        """Share of T in which attention has nothing to do, 0 to 1."""
        return self._idle(self.attention)

    @property
    def experts_idle(self) -> float:
        """Share of T in which the experts have nothing to do, 0 to 1."""
        return self._idle(self.experts)

    def _idle(self, part: float) -> float:
        return max(1 - part * self.micro_batches * self.layers / self.total, 0.0)

    def with_micro_batches(self, micro_batches: int) -> PingPong:
        """The same micro-batches, another number of them."""
        return PingPong(self.attention, self.experts, self.transfer, micro_batches, self.layers)
