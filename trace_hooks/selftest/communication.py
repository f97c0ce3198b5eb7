"""Transfers between ranks: messages in both directions at once, and all-reduce in groups.

Every wait has a limit. With gloo a transfer that fails concerns its two ranks only; with NCCL
nothing can be measured after it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any, TypeVar

from trace_hooks.selftest.compute import Own
from trace_hooks.selftest.repetitions import Times, timed

Result = TypeVar("Result")

_POLL_S = 0.0002


class TransferError(Exception):
    """A transfer failed or took too long; the message says which."""


def connect(own: Own, store: Any, rank: int, num_ranks: int, limit_s: float) -> None:
    """Make the default process group and use it once; raises TransferError."""
    import torch
    from torch import distributed as dist

    try:
        dist.init_process_group(
            "nccl" if own.kind == "cuda" else "gloo",
            store=store,
            rank=rank,
            world_size=num_ranks,
            timeout=timedelta(seconds=limit_s),
        )
        one = torch.ones(1, device=own.where)
        _finish(own, [dist.all_reduce(one, async_op=True)], time.monotonic() + limit_s)
    except (RuntimeError, ValueError) as error:
        raise TransferError(_first_line(error)) from None


class Transfers:
    """The transfers of one unit, which end in time or fail."""

    def __init__(self, own: Own, rank: int, limit_s: float) -> None:
        self._own, self._rank = own, rank
        self._limit_s = limit_s
        self._until = time.monotonic() + limit_s

    def pair(self, peer: int, num_bytes: int, seconds: float, samples: int) -> Times:
        """Send and receive `num_bytes` at the same time; raises TransferError."""
        from torch import distributed as dist

        def exchange(out: Any, into: Any) -> None:
            ops = [dist.P2POp(dist.isend, out, peer), dist.P2POp(dist.irecv, into, peer)]
            _finish(self._own, dist.batch_isend_irecv(ops), self._until)

        def longest_of(own_s: float) -> float:
            out, into = self._number(own_s), self._number(0.0)
            exchange(out, into)
            return max(own_s, float(into.item()))

        out, into = self._buffer(num_bytes), self._buffer(num_bytes)
        return self._timed(lambda: exchange(out, into), seconds, samples, longest_of)

    def all_reduce(
        self, ranks: Sequence[int], num_ranks: int, num_bytes: int, seconds: float, samples: int
    ) -> Times:
        """All-reduce among `ranks` of all `num_ranks`; raises TransferError."""
        from torch import distributed as dist

        group = None
        if len(ranks) < num_ranks:
            group = self._tried(
                lambda: dist.new_group(
                    list(ranks),
                    timeout=timedelta(seconds=self._limit_s),
                    use_local_synchronization=True,
                )
            )
        buffer = self._buffer(num_bytes)

        def reduce(tensor: Any, op: Any) -> None:
            work = dist.all_reduce(tensor, op, group=group, async_op=True)
            _finish(self._own, [work], self._until)

        def longest_of(own_s: float) -> float:
            number = self._number(own_s)
            reduce(number, dist.ReduceOp.MAX)
            return float(number.item())

        times = self._timed(lambda: reduce(buffer, dist.ReduceOp.SUM), seconds, samples, longest_of)
        if group is not None:
            dist.destroy_process_group(group)
        return times

    def _timed(
        self,
        once: Callable[[], None],
        seconds: float,
        samples: int,
        longest_of: Callable[[float], float],
    ) -> Times:
        return self._tried(lambda: timed(once, seconds, samples, longest_of))

    @staticmethod
    def _tried(do: Callable[[], Result]) -> Result:
        try:
            return do()
        except (RuntimeError, ValueError) as error:
            raise TransferError(_first_line(error)) from None

    def _buffer(self, num_bytes: int) -> Any:
        import torch

        return torch.zeros(num_bytes // 4, dtype=torch.float32, device=self._own.where)

    def _number(self, value: float) -> Any:
        import torch

        return torch.tensor([value], dtype=torch.float64, device=self._own.where)


def _finish(own: Own, works: Sequence[Any], until: float) -> None:
    """Wait for transfers; raises RuntimeError where they fail, or at `until` (monotonic s)."""
    for work in works:
        if own.kind == "cuda":
            work.wait()  # orders the stream, does not block
        else:
            work.wait(timedelta(seconds=max(until - time.monotonic(), 0.01)))
    if own.kind != "cuda":
        return
    import torch

    event = torch.cuda.Event()
    event.record()
    while not event.query():
        if time.monotonic() > until:
            raise RuntimeError("timed out")
        time.sleep(_POLL_S)


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0][:300]
