"""Which compute a send or receive belongs to, and which two of them are one transfer."""

from __future__ import annotations

from dataclasses import dataclass

from diagnosis.whatif.operations import NotAnswerable, Operations
from diagnosis.whatif.optypes import (
    BACKWARD,
    BACKWARD_RECV,
    BACKWARD_SEND,
    FORWARD,
    FORWARD_RECV,
    FORWARD_SEND,
)

EPS_S = 5e-5
"""Transfers this far beyond the computes of their direction carry nothing."""


@dataclass(frozen=True)
class Stream:
    """Sends or receives of one direction. `ahead`: where outputs of that direction go."""

    optype: str
    compute: str
    is_send: bool
    ahead: int

    @property
    def peer(self) -> int:
        """Distance in virtual stages to whom this stream exchanges with."""
        return self.ahead if self.is_send else -self.ahead


STREAMS = (
    Stream(FORWARD_SEND, FORWARD, True, 1),
    Stream(FORWARD_RECV, FORWARD, False, 1),
    Stream(BACKWARD_SEND, BACKWARD, True, -1),
    Stream(BACKWARD_RECV, BACKWARD, False, -1),
)


@dataclass(frozen=True)
class Transfer:
    """A send or receive `op` and the compute it serves, `index`-th of its direction and stage."""

    op: int
    compute: int
    index: int


class Pipeline:
    """Matches of all stages, by the start and end of every op in one step of one dp rank."""

    def __init__(self, ops: Operations, start_O: list[float], end_O: list[float]) -> None:
        self.ops = ops
        self._start_O, self._end_O = start_O, end_O

    def by_start(self, members: list[int]) -> list[int]:
        """Ops in the order in which they began."""
        seq_O = self.ops.seq_O
        return sorted(members, key=lambda op: (self._start_O[op], seq_O[op]))

    def matches(self, stream: Stream, stage: int) -> list[Transfer]:
        """Transfers of a stage with their computes; those that carry nothing are not among them."""
        computes = self.ops.of_type(stream.compute, stage)
        carrying = self._carrying(stream, stage, computes)
        skipped = self._skipped(stream, stage, len(computes), len(carrying))
        return [
            Transfer(op, computes[index], index) for index, op in enumerate(carrying, start=skipped)
        ]

    def _carrying(self, stream: Stream, stage: int, computes: list[int]) -> list[int]:
        members = self.by_start(self.ops.of_type(stream.optype, stage))
        if not computes:
            return []
        if stream.is_send:
            first = min(self._end_O[op] for op in computes) - EPS_S
            return [op for op in members if self._end_O[op] >= first]
        last = max(self._start_O[op] for op in computes) + EPS_S
        return [op for op in members if self._start_O[op] <= last]

    def _skipped(self, stream: Stream, stage: int, num_computes: int, num_carrying: int) -> int:
        """Computes before the first one that has a transfer; raises NotAnswerable."""
        if num_carrying == num_computes:
            return 0
        at_the_end = stage in (0, self.ops.sizes.pp - 1)
        if at_the_end and num_carrying in (0, num_computes - 1):
            return 0 if stream.is_send else 1
        raise NotAnswerable(
            f"stage {stage} has {num_carrying} operations {stream.optype} for {num_computes} "
            f"{stream.compute}; each needs one"
        )

    def pairs(self) -> list[tuple[int, int]]:
        """(send, receive) of every transfer between two stages; raises NotAnswerable."""
        valid = {
            (stream, stage): self._with_peer(stream, self.matches(stream, stage))
            for stream in STREAMS
            for stage in range(self.ops.sizes.pp)
        }
        pairs: list[tuple[int, int]] = []
        for send, receive in zip(STREAMS[::2], STREAMS[1::2], strict=True):
            for stage in range(self.ops.sizes.pp):
                to = (stage + send.ahead) % self.ops.sizes.pp
                sent, received = valid[send, stage], valid[receive, to]
                if len(sent) != len(received):
                    raise NotAnswerable(
                        f"stage {stage} has {len(sent)} operations {send.optype}, stage {to} "
                        f"{len(received)} {receive.optype}; they are no pairs"
                    )
                pairs += zip(sent, received, strict=True)
        return pairs

    def _with_peer(self, stream: Stream, matches: list[Transfer]) -> list[int]:
        """Transfers whose neighbour exists: the ends of a pipeline exchange with nobody."""
        pp, last = self.ops.sizes.pp, self.ops.sizes.pp * self.ops.num_chunks - 1
        ops = []
        for match in matches:
            chunk, stage = self.ops.chunk_O[match.compute], self.ops.stage_O[match.compute]
            if 0 <= max(int(chunk), 0) * pp + int(stage) + stream.peer <= last:
                ops.append(match.op)
        return ops
