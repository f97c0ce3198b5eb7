"""The models that the parts train: one with a billion parameters, and one limited by launches."""

from __future__ import annotations

import copy
import functools
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import torch
from torch import nn

import trace_hooks as th
from benchmarks.gpu.figures import NotHere, Place
from sample_traces.jobs.model import GPTSizes, build_stage, token_loss
from trace_hooks.recording.clock import HostClock
from trace_hooks.schema.reading import read_rows
from trace_hooks.tracer import Tracer

Step = Callable[[], torch.Tensor]


@dataclass(frozen=True)
class Workload:
    """A model, its batch and its type; `rehearsed` replaces it on a CPU."""

    name: str
    sizes: GPTSizes
    batch: int
    dtype: torch.dtype


_REHEARSED = GPTSizes(num_layers=2, width=64, num_heads=4, vocabulary=128, seq_len=32)
LARGE = Workload(
    "1 billion parameters, bf16",
    GPTSizes(num_layers=24, width=1792, num_heads=14, vocabulary=32_000, seq_len=2048),
    4,
    torch.bfloat16,
)
SMALL = Workload(
    "small, launch-bound",
    GPTSizes(num_layers=4, width=256, num_heads=8, vocabulary=512, seq_len=128),
    1,
    torch.float32,
)
WORKLOADS = {"large": LARGE, "small": SMALL}
"""For command lines of processes that a part starts."""


def compute_the_same_twice() -> None:
    """Choose kernels that give the same bits each time, before CUDA is used: the backward of fused
    attention adds in any order otherwise, with hooks or without. With warn_only, torch would only
    warn of attention and go on.
    """
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    torch.use_deterministic_algorithms(True)
    torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]


@functools.lru_cache(maxsize=1)
def _new_model(sizes: GPTSizes) -> nn.Module:
    """On the host; kept because a billion random numbers take longer than the steps that follow."""
    return build_stage(sizes, 0, 1, 0)


class Training:
    """A GPT trained in one process, the same way each time: seeds, data and order are fixed."""

    def __init__(self, place: Place, workload: Workload) -> None:
        self.place = place
        self.sizes = _REHEARSED if place.is_rehearsal else workload.sizes
        batch = 2 if place.is_rehearsal else workload.batch
        torch.manual_seed(0)
        model = copy.deepcopy(_new_model(self.sizes))
        self.model: nn.Module = model.to(place.device, workload.dtype)
        self.optimizer = torch.optim.AdamW(
            self.model.parameters(), lr=1e-4, fused=not place.is_rehearsal
        )
        shape = (8, batch, self.sizes.seq_len)
        tokens = torch.randint(self.sizes.vocabulary, shape)
        self.tokens = tokens.to(place.device)
        self._number = 0

    def step(self) -> torch.Tensor:
        """One optimizer step; returns the loss, still on the device."""
        tokens = self.tokens[self._number % len(self.tokens)]
        self._number += 1
        self.optimizer.zero_grad(set_to_none=True)
        loss = token_loss(self.model(tokens), tokens)
        loss.backward()
        self.optimizer.step()
        return loss.detach()


@contextmanager
def recording(
    training: Training, folder: Path, watches: Sequence[dict[str, Any]] = (), **settings: Any
) -> Iterator[Tracer]:
    """The hooks on its model, which write below `folder`; `settings`: what th.start takes."""
    os.environ["TRACE_HOOKS_RING_DIR"] = str(folder / "rings")
    tracer = th.start(folder, run="gpu", model=training.model, **settings)
    try:
        for answer in tracer.inspect(*watches) if watches else ():
            if not answer.ok:
                raise ValueError(answer.text)
        yield tracer
    finally:
        tracer.stop()


@contextmanager
def hooked(
    training: Training, folder: Path, watches: Sequence[dict[str, Any]] = (), **settings: Any
) -> Iterator[Step]:
    """Its step under the hooks, its loss logged; the rest as in `recording`."""
    with recording(training, folder, watches, **settings) as tracer:
        yield partial(logged_step, training, tracer)


def logged_step(training: Training, tracer: Tracer) -> torch.Tensor:
    """A step under the hooks as a job has it: its loss is logged."""
    with tracer.step():
        loss = training.step()
        tracer.log(loss=loss)
    return loss


def warm_up(place: Place, step: Callable[[], object], seconds: float = 1.5) -> None:
    """Run steps until everything has happened once: kernels are chosen, memory is allocated,
    hooks have their clock and their buffers.
    """
    until_s = time.monotonic() + (min(seconds, 0.05) if place.is_rehearsal else seconds)
    number = 0
    while number < 3 or time.monotonic() < until_s:
        step()
        place.wait()
        number += 1


def settle(place: Place, tracer: Tracer, step: Callable[[], object], seconds: float = 1.5) -> None:
    """Warm up under the hooks; raises NotHere if they have not read the device's clock by then."""
    warm_up(place, step, seconds)
    if not place.is_rehearsal and isinstance(tracer.recorder.device_clock, HostClock):
        raise NotHere("the hooks take no times of the device; their log says why")


def rows_of(folder: Path, table: str) -> pa.Table:
    """All rows of a table that hooks wrote below `folder`; raises ValueError where it is empty."""
    rows = pa.concat_tables(read_rows(run, table) for run in sorted(folder.iterdir()))
    if not rows.num_rows:
        raise ValueError(f"the hooks wrote no table {table} below {folder}")
    return rows
