"""A socket stalls for as long as its write buffer does not shrink."""

from __future__ import annotations

from trace_hooks.protocol.stall import Stall


def test_it_lasts_while_nothing_leaves_the_buffer() -> None:
    stall = Stall()
    unsent = [0, 50, 50, 60, 40, 40, 0, 0]
    assert [stall.look(size, float(at_s)) for at_s, size in enumerate(unsent)] == [
        *(0.0, 0.0, 1.0, 2.0, 0.0, 0.0, 0.0, 0.0)
    ]
    assert stall.lasted_s == 0.0
