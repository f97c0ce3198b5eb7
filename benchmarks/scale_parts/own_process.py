"""Calls in a process of their own, with what they cost: memory of earlier parts does not count."""

from __future__ import annotations

import resource
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from typing import Any

KIB = 1024
MB = 10**6


@dataclass(frozen=True)
class Cost:
    """Wall and CPU seconds of a call, and the peak memory of its process."""

    wall_s: float
    cpu_s: float
    peak_mb: float


def in_own_process(call: Callable[..., Any], *given: Any) -> tuple[Any, Cost]:
    """What the call returns, and its cost without that of starting the process."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(_measured, call, *given).result()


def _measured(call: Callable[..., Any], *given: Any) -> tuple[Any, Cost]:
    began_s, cpu_s = time.perf_counter(), time.process_time()
    result = call(*given)
    cost = Cost(
        time.perf_counter() - began_s,
        time.process_time() - cpu_s,
        resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * KIB / MB,
    )
    return result, cost
