"""What a time means: bandwidth and compute rates.

Source of the bus bandwidth: github.com/NVIDIA/nccl-tests, doc/PERFORMANCE.md. algbw = S / t; bus
bandwidth = algbw x a factor of the operation, which makes it comparable with the links' speed
whatever the number of ranks. 1 GB/s is 1e9 bytes per second.
"""

from __future__ import annotations

GB, TERA = 1e9, 1e12


def bus_factor(op: str, num_ranks: int) -> float:
    """Factor from algorithm to bus bandwidth; raises ValueError for an unknown operation.

    S of all_gather, reduce_scatter and all_to_all is the total over all ranks.
    """
    if num_ranks < 2:
        raise ValueError(f"bus bandwidth of {num_ranks} rank; give at least 2")
    if op == "all_reduce":
        return 2 * (num_ranks - 1) / num_ranks
    if op in ("all_gather", "reduce_scatter", "all_to_all"):
        return (num_ranks - 1) / num_ranks
    if op in ("broadcast", "reduce", "send"):
        return 1.0
    raise ValueError(f"no factor is known for {op!r}")


def bus_gb_s(op: str, num_bytes: int, seconds: float, num_ranks: int) -> float:
    """Bus bandwidth, GB/s. A pair that exchanges messages is `send`: one direction counts."""
    return num_bytes * bus_factor(op, num_ranks) / seconds / GB


def copy_gb_s(num_bytes: int, seconds: float) -> float:
    """Bandwidth of a copy inside one memory, GB/s: each byte is read and written."""
    return 2 * num_bytes / seconds / GB


def matmul_tflop_s(size: int, seconds: float) -> float:
    """Rate of a product of two square matrices, 1e12 floating-point operations per second."""
    return 2 * size**3 / seconds / TERA
