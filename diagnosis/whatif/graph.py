"""What every op waits for, built once and shared by all steps and dp ranks.

Rules: sections 2.1 to 2.10 of the paper's artifact in our words (docs/whatif.md lists them).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise

from diagnosis.whatif.operations import NotAnswerable, Operations
from diagnosis.whatif.optypes import (
    ALL_GATHER,
    BACKWARD,
    BACKWARD_RECV,
    BACKWARD_SEND,
    CLIP,
    COMPUTE,
    EMBEDDING,
    FORWARD,
    GC,
    LAYERNORM,
    OPTIMIZER,
    REDUCE_SCATTER,
    SEPARATE_ALL_REDUCE,
)
from diagnosis.whatif.pipeline import STREAMS, Pipeline

_OVER_DP = (ALL_GATHER, REDUCE_SCATTER, SEPARATE_ALL_REDUCE)


@dataclass(frozen=True)
class Node:
    """Ops that begin together: all must have started before any transfers.

    `over_dp`: the same ops of all dp ranks belong to it too. `is_local`: one op that waits for
    nobody but its dependencies; its raw duration counts.
    """

    ops: tuple[int, ...]
    over_dp: bool = False
    is_local: bool = False


@dataclass(frozen=True)
class Graph:
    """Nodes in an order in which each comes after all it waits for; `waits_O`: per op, for what."""

    nodes: tuple[Node, ...]
    waits_O: tuple[tuple[int, ...], ...]
    ends: tuple[int, ...]
    """ops whose latest end is the end of the step"""


def graph_of(ops: Operations) -> Graph:
    """Dependencies by the order of ops in the reference step of dp rank 0.

    Raises NotAnswerable: a transfer without its other end, a stage without an optimizer, a cycle.
    """
    builder = _Builder(ops)
    for stage in range(ops.sizes.pp):
        builder.add_stage(stage)
    waits_O = tuple(tuple(sorted(builder.waits[op])) for op in range(len(ops.type_O)))
    return Graph(_in_order(_nodes(ops, builder.pipeline), waits_O), waits_O, builder.ends)


class _Builder:
    """Collects what each op waits for."""

    def __init__(self, ops: Operations) -> None:
        self.ops = ops
        at = ops.reference
        self.start_O: list[float] = ops.start_OSD[:, at, 0].tolist()
        self.end_O: list[float] = ops.end_OSD[:, at, 0].tolist()
        self.pipeline = Pipeline(ops, self.start_O, self.end_O)
        self.waits: defaultdict[int, set[int]] = defaultdict(set)
        self.ends: tuple[int, ...] = ()

    def add_stage(self, stage: int) -> None:
        """All rules for one stage."""
        order = sorted(
            (op for optype in COMPUTE for op in self.ops.of_type(optype, stage)),
            key=lambda op: (self.start_O[op], self.ops.seq_O[op], self._type(op)),
        )
        if not order:
            raise NotAnswerable(f"stage {stage} has no forward or backward")
        self._chain(order)
        self._transfers(stage, order)
        if self.ops.sizes.has_dp_communication:
            self._gradients(stage)
        self._tail(stage, order)

    def _type(self, op: int) -> str:
        return self.ops.optypes[int(self.ops.type_O[op])]

    def _chain(self, order: list[int]) -> None:
        for before, after in pairwise(order):
            self.waits[after].add(before)

    def _transfers(self, stage: int, order: list[int]) -> None:
        for stream in STREAMS:
            members = self.pipeline.by_start(self.ops.of_type(stream.optype, stage))
            self._chain(members)
            computes = self.ops.of_type(stream.compute, stage)
            for transfer in self.pipeline.matches(stream, stage):
                if stream.is_send:
                    self.waits[transfer.op].add(transfer.compute)
                else:
                    self.waits[transfer.compute].add(transfer.op)
                    if transfer.index:
                        self.waits[transfer.op].add(computes[transfer.index - 1])
        self._first_backward(stage, order)

    def _first_backward(self, stage: int, order: list[int]) -> None:
        """The first backward transfer is posted two computes before the first backward."""
        first = next((i for i, op in enumerate(order) if self._type(op) == BACKWARD), None)
        if first is None or first < 2:
            return
        for optype in (BACKWARD_SEND, BACKWARD_RECV):
            for op in self.ops.of_type(optype, stage)[:1]:
                self.waits[op].add(order[first - 2])

    def _gradients(self, stage: int) -> None:
        gathers = self.ops.of_type(ALL_GATHER, stage)
        scatters = self.ops.of_type(REDUCE_SCATTER, stage)
        self._chain(self.pipeline.by_start(gathers + scatters))
        forwards, backwards = (self._by_chunk(self.ops.of_type(t, stage)) for t in COMPUTE)
        for chunk, members in self._by_chunk(gathers).items():
            if chunk in forwards:
                self.waits[forwards[chunk][0]].add(members[-1])
        if self.ops.of_type(SEPARATE_ALL_REDUCE, stage):
            for chunk, members in self._by_chunk(scatters).items():
                if chunk in backwards:
                    self.waits[members[0]].add(self._last(backwards[chunk]))

    def _by_chunk(self, members: list[int]) -> dict[int, list[int]]:
        ops_by_chunk: defaultdict[int, list[int]] = defaultdict(list)
        for op in members:
            ops_by_chunk[max(int(self.ops.chunk_O[op]), 0)].append(op)
        return ops_by_chunk

    def _last(self, members: Iterable[int]) -> int:
        return max(members, key=lambda op: self.end_O[op])

    def _tail(self, stage: int, order: list[int]) -> None:
        """From the last compute to the optimizer; types that a job does not have are skipped."""
        names = [GC, LAYERNORM, EMBEDDING, SEPARATE_ALL_REDUCE, CLIP, OPTIMIZER]
        overlapped = bool(self.ops.of_type(SEPARATE_ALL_REDUCE, stage))
        if not overlapped:
            names[3] = REDUCE_SCATTER if self.ops.sizes.has_dp_communication else ""
        steps = [members for name in names if (members := self.ops.of_type(name, stage))]
        optimizers = self.ops.of_type(OPTIMIZER, stage)
        if not optimizers:
            raise NotAnswerable(f"stage {stage} has no optimizer, so its step has no end")
        self._chain([self._last(order), *(op for members in steps for op in members)])
        scatters = self.ops.of_type(REDUCE_SCATTER, stage)
        if overlapped and scatters and self.ops.sizes.has_dp_communication:
            after = next(members[0] for members in steps if self._type(members[0]) != GC)
            self.waits[after].add(self.pipeline.by_start(scatters)[-1])
        self.ends = (*self.ends, *optimizers)


def _nodes(ops: Operations, pipeline: Pipeline) -> list[Node]:
    paired = pipeline.pairs()
    nodes = [Node(pair) for pair in paired]
    alone = set(range(len(ops.type_O))) - {op for pair in paired for op in pair}
    by_seq: defaultdict[tuple[str, int], list[int]] = defaultdict(list)
    for op in sorted(alone):
        optype = ops.optypes[ops.type_O[op]]
        if optype in (EMBEDDING, CLIP):
            by_seq[optype, int(ops.seq_O[op])].append(op)
        elif optype in _OVER_DP:
            nodes.append(Node((op,), over_dp=True))
        elif optype in (FORWARD, BACKWARD, GC, LAYERNORM, OPTIMIZER):
            nodes.append(Node((op,), is_local=True))
        else:  # a transfer that carries nothing
            nodes.append(Node((op,)))
    return nodes + [
        Node(tuple(members), over_dp=optype == CLIP) for (optype, _), members in by_seq.items()
    ]


def _in_order(nodes: list[Node], waits_O: tuple[tuple[int, ...], ...]) -> tuple[Node, ...]:
    """Nodes after all they wait for; raises NotAnswerable for a cycle."""
    node_of = {op: number for number, node in enumerate(nodes) for op in node.ops}
    before = [{node_of[w] for op in node.ops for w in waits_O[op]} for node in nodes]
    after: list[list[int]] = [[] for _ in nodes]
    for number, needed in enumerate(before):
        for other in needed:
            after[other].append(number)
    missing = [len(needed) for needed in before]
    ready = [number for number, count in enumerate(missing) if not count]
    order: list[Node] = []
    while ready:
        number = ready.pop()
        order.append(nodes[number])
        for other in after[number]:
            missing[other] -= 1
            if not missing[other]:
                ready.append(other)
    if len(order) < len(nodes):
        raise NotAnswerable(
            f"{len(nodes) - len(order)} of {len(nodes)} operations wait for each other in a "
            "cycle: no job can run in the order of the first step, so its times must be wrong"
        )
    return tuple(order)
