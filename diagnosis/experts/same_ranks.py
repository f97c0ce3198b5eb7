"""Micro-batches in turn on ranks that do both attention and experts: what all-to-alls still cost.

In expert-parallel training a rank does the attention of each of m micro-batches, then the experts
of each, while the all-to-alls of the others are under way. Both compute on one device, so only the
all-to-alls can be hidden:

    attention 1, attention 2, experts 1, experts 2, attention 1 of the next layer, ...

The time is that of this order, followed piece by piece. It is at least L max(m (Ta + Te), R), with
the round trip R = Ta + Te + 2 Tc.
"""

from __future__ import annotations

from dataclasses import dataclass

from diagnosis.experts.ping_pong import ALMOST, PingPong

MOST_MICRO_BATCHES = 32
"""More are not tried: all-to-alls that take longer than computing cannot be hidden at all."""

_LAYERS_UNTIL_STEADY = 8


@dataclass(frozen=True)
class SameRanks(PingPong):
    """One pass of m micro-batches through L layers, attention and experts on the same ranks."""

    @property
    def slowest(self) -> float:
        """The longer of computing and one transfer, of a micro-batch and layer."""
        return max(self.attention + self.experts, self.transfer)

    @property
    def total(self) -> float:
        """T: from the first attention to the last combine."""
        device = dispatching = combining = 0.0
        ready = [0.0] * self.micro_batches
        for _ in range(self.layers):
            for number, at in enumerate(ready):
                device = max(device, at) + self.attention
                dispatching = max(dispatching, device) + self.transfer
                ready[number] = dispatching
            for number, at in enumerate(ready):
                device = max(device, at) + self.experts
                combining = max(combining, device) + self.transfer
                ready[number] = combining
        return max(ready)

    @property
    def are_equal(self) -> bool:
        """Both run on the same ranks: there are no sides to be equal."""
        return True

    @property
    def least_micro_batches(self) -> int:
        """The fewest with which the ranks always compute; MOST_MICRO_BATCHES + 1 where none do."""
        for number in range(1, MOST_MICRO_BATCHES + 1):
            computing = number * (self.attention + self.experts)
            if self._of_a_layer(number) <= computing * (1 + ALMOST):
                return number
        return MOST_MICRO_BATCHES + 1

    def _of_a_layer(self, micro_batches: int) -> float:
        """Time of one more layer, once the first layers are through."""
        times = (self.attention, self.experts, self.transfer, micro_batches)
        longer = SameRanks(*times, 2 * _LAYERS_UNTIL_STEADY).total
        return (longer - SameRanks(*times, _LAYERS_UNTIL_STEADY).total) / _LAYERS_UNTIL_STEADY

    @property
    def attention_idle(self) -> float:
        """Share of T in which the ranks compute nothing, 0 to 1."""
        return self._idle(self.attention + self.experts)

    @property
    def experts_idle(self) -> float:
        """The same: they are the same ranks."""
        return self.attention_idle

    def with_micro_batches(self, micro_batches: int) -> SameRanks:
        """The same micro-batches, another number of them."""
        return SameRanks(self.attention, self.experts, self.transfer, micro_batches, self.layers)
