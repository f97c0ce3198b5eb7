"""Max-plus replay of many scenarios at once over dense arrays.

An op begins when all it waits for have ended, a group when its last member has begun; local ops end
after their duration, members of a group after their own transfer. Every array of ends is freed
after its last reader, and steps are taken in blocks that stay in the cache.

"Only dp rank d is real" needs no replay of all ranks for each d: all other ranks equal each other,
so two lanes per d are enough, d itself and one ideal rank.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from diagnosis.whatif.graph import Graph, Node
from diagnosis.whatif.operations import Floats

_BLOCK_BYTES = 1 << 20
"""Ends of one op over all scenarios in one block of steps."""


@dataclass(frozen=True)
class Scenarios:
    """K scenarios: `real_O` names, per op, those in which it keeps its real time.

    `lanes`: two rows more, dp rank d by itself real and an ideal rank next to it, for every d.
    """

    num: int
    real_O: Sequence[Sequence[int]]
    lanes: bool = False


def step_times(
    graph: Graph, own_OSD: Floats, ideal_O: Floats, scenarios: Scenarios
) -> tuple[Floats, Floats]:
    """Length of every step, s: (K, S), and (S, D) of "only dp rank d real" (empty without lanes).

    `own_OSD`: real own time of every op; `ideal_O`: its ideal one.
    """
    _, num_steps, num_dp = own_OSD.shape
    rows = scenarios.num + 2 * scenarios.lanes
    steps = max(1, _BLOCK_BYTES // (rows * num_dp * 8))
    total_KS = np.empty((scenarios.num, num_steps))
    lane_SD = np.empty((num_steps if scenarios.lanes else 0, num_dp))
    last = _last_reads(graph)
    for first in range(0, num_steps, steps):
        block = slice(first, first + steps)
        ended = _Block(graph, own_OSD[:, block], ideal_O, scenarios, last).ended()
        total_KS[:, block] = ended[: scenarios.num].max(axis=-1)
        if scenarios.lanes:
            lane_SD[block] = _latest_lane(ended, scenarios.num, num_dp)
    return total_KS, lane_SD


def op_times(
    graph: Graph, own_OSD: Floats, ideal_O: Floats, scenarios: Scenarios
) -> tuple[Floats, Floats]:
    """Begin and end of every op, s since the step's begin, (O, K, S, D) each.

    Nothing is freed: ask for few steps. The begin of a group's member is its own, so that its
    waiting for the others lies between begin and end.
    """
    num_ops, num_steps, num_dp = own_OSD.shape
    begin = np.zeros((num_ops, scenarios.num, num_steps, num_dp))
    end = np.zeros_like(begin)
    keep_all: list[list[int]] = [[] for _ in graph.nodes]
    block = _Block(graph, own_OSD, ideal_O, scenarios, keep_all)
    block.ended()
    for op, waits in enumerate(graph.waits_O):
        end[op] = block.ends[op]
        for other in waits:
            np.maximum(begin[op], block.ends[other], out=begin[op])
    return begin, end


def _latest_lane(ended_KSD: Floats, num: int, num_dp: int) -> Floats:
    """Of one dp rank alone there is no ideal rank next to it."""
    latest: Floats = np.maximum(ended_KSD[num], ended_KSD[num + (num_dp > 1)])
    return latest


def _last_reads(graph: Graph) -> list[list[int]]:
    """Per node, the ops whose ends nobody reads after it."""
    last: dict[int, int] = {}
    for number, node in enumerate(graph.nodes):
        for op in node.ops:
            last[op] = number
            for other in graph.waits_O[op]:
                last[other] = number
    last_reads: list[list[int]] = [[] for _ in graph.nodes]
    for op, number in last.items():
        last_reads[number].append(op)
    return last_reads


class _Block:
    """The replay of one block of steps; rows are scenarios, then the two lanes."""

    def __init__(
        self,
        graph: Graph,
        own_OSD: Floats,
        ideal_O: Floats,
        scenarios: Scenarios,
        last: list[list[int]],
    ) -> None:
        self.graph, self.own_OSD, self.ideal_O = graph, own_OSD, ideal_O
        self.scenarios, self.last = scenarios, last
        _, num_steps, self.num_dp = own_OSD.shape
        self.shape = (scenarios.num + 2 * scenarios.lanes, num_steps, self.num_dp)
        self.ends: dict[int, Floats] = {}

    def ended(self) -> Floats:
        """When the last op of the step ended, (rows, S, D)."""
        latest = np.full(self.shape, -np.inf)
        final = set(self.graph.ends)
        for node, done in zip(self.graph.nodes, self.last, strict=True):
            begun = None if node.is_local else self._together(node)
            for op in node.ops:
                self.ends[op] = self._end(op, self._begin(op) if begun is None else begun)
                if op in final:
                    np.maximum(latest, self.ends[op], out=latest)
            for op in done:
                del self.ends[op]
        return latest

    def _begin(self, op: int) -> Floats | None:
        """Latest end of what the op waits for; None: it waits for nothing and begins at 0."""
        waits = self.graph.waits_O[op]
        if not waits:
            return None
        if len(waits) == 1:
            return self.ends[waits[0]]
        begin: Floats = np.maximum(self.ends[waits[0]], self.ends[waits[1]])
        for other in waits[2:]:
            np.maximum(begin, self.ends[other], out=begin)
        return begin

    def _together(self, node: Node) -> Floats:
        begins = [begin for op in node.ops if (begin := self._begin(op)) is not None]
        if not begins:
            return np.zeros(self.shape)
        together = begins[0]
        for begin in begins[1:]:
            together = np.maximum(together, begin)
        if len(begins) < len(node.ops):
            together = np.maximum(together, 0.0)
        return self._over_dp(together) if node.over_dp else together

    def _over_dp(self, begin: Floats) -> Floats:
        num = self.scenarios.num
        joined = np.empty(self.shape)
        joined[:num] = begin[:num].max(axis=-1, keepdims=True)
        if self.scenarios.lanes:
            joined[num:] = _latest_lane(begin, num, self.num_dp)
        return joined

    def _end(self, op: int, begin: Floats | None) -> Floats:
        ideal, own_SD = self.ideal_O[op], self.own_OSD[op]
        if begin is None:
            begin = np.zeros(self.shape)
        end: Floats = begin + ideal
        for row in self._real_rows(op):
            np.add(begin[row], own_SD, out=end[row])
        return end

    def _real_rows(self, op: int) -> Sequence[int]:
        real = self.scenarios.real_O[op]
        return [*real, self.scenarios.num] if self.scenarios.lanes else real
