"""In which order a pipeline stage computes its forwards and backwards: 1F1B, plain or interleaved.

Source: Megatron-LM, forward_backward_pipelining_with(out)_interleaving.
"""

from __future__ import annotations

from collections.abc import Iterator


def one_f_one_b(
    p: int, num_stages: int, num_microbatches: int, num_chunks: int = 1
) -> list[tuple[str, int, int]]:
    """Order of ("F" or "B", chunk, micro-batch) on stage `p`.

    >>> one_f_one_b(1, 2, 2)
    [('F', 0, 0), ('B', 0, 0), ('F', 0, 1), ('B', 0, 1)]
    """
    return list(_in_turns(p, num_stages, num_microbatches, num_chunks))


def _in_turns(
    p: int, stages: int, microbatches: int, chunks: int
) -> Iterator[tuple[str, int, int]]:
    total = microbatches * chunks
    ahead = stages - p - 1 if chunks == 1 else 2 * (stages - p - 1) + (chunks - 1) * stages
    warmup = total if chunks > 1 and microbatches == stages else min(ahead, total)
    forward = [_kth(k, stages, chunks) for k in range(total)]
    for k in range(total + warmup):
        if k < total:
            yield "F", *forward[k]
        if k >= warmup:
            chunk, m = forward[k - warmup]
            yield "B", chunks - 1 - chunk, m


def _kth(k: int, stages: int, chunks: int) -> tuple[int, int]:
    """Chunk and micro-batch of the k-th forward of a stage."""
    if chunks == 1:
        return 0, k
    turn, rest = divmod(k, stages * chunks)
    return rest // stages, turn * stages + rest % stages
