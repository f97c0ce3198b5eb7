"""Measures a rank's device alone: matmul, copies in its memory and between host and device."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, NamedTuple

from trace_hooks.selftest.formulas import GB, copy_gb_s, matmul_tflop_s
from trace_hooks.selftest.plan import Sizes


class Own(NamedTuple):
    """The device of this rank. `kind`: cuda or cpu."""

    kind: str
    name: str
    uuid: str
    where: Any  # torch.device


def find_device(wanted: str, local_rank: int, num_local: int) -> Own:
    """The device of a rank; raises ValueError where there is none of the wanted kind."""
    import torch

    if wanted == "cpu" or (wanted == "auto" and not torch.cuda.is_available()):
        torch.set_num_threads(max(1, len(os.sched_getaffinity(0)) // num_local))
        return Own("cpu", "cpu", "", torch.device("cpu"))
    count = torch.cuda.device_count()
    if local_rank >= count:
        raise ValueError(f"there is no GPU {local_rank} (visible: {count})")
    torch.cuda.set_device(local_rank)
    properties = torch.cuda.get_device_properties(local_rank)
    uuid = str(getattr(properties, "uuid", ""))
    return Own("cuda", str(properties.name), uuid, torch.device("cuda", local_rank))


def prepared(test: str, own: Own, sizes: Sizes) -> Callable[[], None]:
    """What one repetition of a test of devices does; it returns when the device is done."""
    import torch

    def tensor(num_bytes: int, where: Any, pinned: bool = False) -> Any:
        return torch.empty(num_bytes // 4, dtype=torch.float32, device=where, pin_memory=pinned)

    if test == "matmul":
        dtype = torch.bfloat16 if own.kind == "cuda" else torch.float32
        a, b = (
            torch.rand(sizes.matmul, sizes.matmul, device=own.where, dtype=dtype) for _ in range(2)
        )
        product = torch.empty_like(a)
        return _done(own, lambda: torch.mm(a, b, out=product))
    if test == "memory":
        source, target = (tensor(sizes.memory, own.where).fill_(1.0) for _ in range(2))
        return _done(own, lambda: target.copy_(source))
    host = tensor(sizes.copy, "cpu", pinned=True)
    device = tensor(sizes.copy, own.where)
    source, target = (host, device) if test == "h2d" else (device, host)
    return _done(own, lambda: target.copy_(source, non_blocking=True))


def _done(own: Own, begin: Callable[[], object]) -> Callable[[], None]:
    import torch

    def once() -> None:
        begin()
        if own.kind == "cuda":
            torch.cuda.synchronize()

    return once


def value_of(test: str, sizes: Sizes, seconds: float) -> tuple[float, str]:
    """Value and unit of a test of devices."""
    if test == "matmul":
        return matmul_tflop_s(sizes.matmul, seconds), "TFLOP/s"
    if test == "memory":
        return copy_gb_s(sizes.memory, seconds), "GB/s"
    return sizes.copy / seconds / GB, "GB/s"
