"""CPU time of a real training step under our hooks, torch.profiler and nothing, in turns."""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

import torch
from torch import nn
from torch.profiler import ProfilerActivity, profile

import trace_hooks as th
from sample_traces.jobs.model import GPTSizes, build_stage

STEPS = 4
SIZES = GPTSizes(num_layers=4, width=256, num_heads=8, seq_len=128)
BATCH = 1
MICROBATCHES = 2


class Training:
    """A GPT trained in one process."""

    def __init__(self, device: str = "cpu") -> None:
        torch.manual_seed(0)
        self.model: nn.Module = build_stage(SIZES, 0, 1, 0).to(device)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-4, foreach=False)
        shape = (MICROBATCHES, BATCH, SIZES.seq_len)
        self.tokens = torch.randint(SIZES.vocabulary, shape, device=device)

    def step(self) -> torch.Tensor:
        """One optimizer step of MICROBATCHES micro-batches; returns the last loss."""
        self.optimizer.zero_grad()
        for tokens in self.tokens:
            logits = self.model(tokens)
            loss = nn.functional.cross_entropy(logits.flatten(0, 1), tokens.flatten())
            loss.backward()
        self.optimizer.step()
        return loss.detach()


@contextmanager
def nothing(training: Training) -> Iterator[Callable[[], object]]:
    """The step alone."""
    yield training.step


@contextmanager
def hooks(level: str, training: Training) -> Iterator[Callable[[], object]]:
    """The step under our hooks, all sources installed."""
    with tempfile.TemporaryDirectory() as folder:
        tracer = th.start(folder, model=training.model, level=level)

        def step() -> None:
            with tracer.step():
                tracer.log(loss=training.step())

        yield step
        tracer.stop()


@contextmanager
def profiler(details: bool, training: Training) -> Iterator[Callable[[], object]]:
    """The step under torch.profiler; what it does after stopping is not measured."""
    activities = [ProfilerActivity.CPU]
    if torch.cuda.is_available():
        activities.append(ProfilerActivity.CUDA)
    with profile(activities=activities, with_stack=details, record_shapes=details):
        yield training.step


WAYS: dict[str, Callable[[Training], object]] = {
    "off": nothing,
    "hooks, level steps": partial(hooks, "steps"),
    "hooks, level blocks": partial(hooks, "blocks"),
    "hooks, level layers": partial(hooks, "layers"),
    "torch.profiler": partial(profiler, False),
    "torch.profiler, stacks + shapes": partial(profiler, True),
    "off again (null)": nothing,
}


@dataclass(frozen=True)
class Cost:
    """CPU time of a step: the least seen, and its ratio to the least of `off`.

    The least, because on a shared machine the rest is somebody else's; the quartiles are of the
    ratios within each round and show how much that is.
    """

    thread_ms: float
    process_ms: float
    thread_ratio: float
    thread_ratio_quartiles: tuple[float, float]
    process_ratio: float


def step_costs(rounds: int) -> dict[str, Cost]:
    """Cost by way of watching; each round runs every way once, in another order."""
    os.environ.setdefault("TRACE_HOOKS_RUN", "benchmark")
    training = Training()
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in WAYS}
    for number in range(rounds):
        names = list(WAYS)
        for name in names[number % len(names) :] + names[: number % len(names)]:
            with WAYS[name](training) as step:  # type: ignore[attr-defined]
                times[name].append(_measured(step))
    return {name: _cost(times[name], times["off"]) for name in WAYS}


def _measured(step: Callable[[], object]) -> tuple[float, float]:
    """Thread CPU ms of the cheapest of STEPS steps after one to warm up, process CPU ms of a step.

    The process does more than the step: the drain thread writes meanwhile.
    """
    step()
    thread = []
    process_begun = time.process_time_ns()
    for _ in range(STEPS):
        begun = time.thread_time_ns()
        step()
        thread.append((time.thread_time_ns() - begun) / 1e6)
    return min(thread), (time.process_time_ns() - process_begun) / STEPS / 1e6


def _cost(own: list[tuple[float, float]], off: list[tuple[float, float]]) -> Cost:
    low, _, high = statistics.quantiles((a[0] / b[0] for a, b in zip(own, off, strict=True)), n=4)
    thread_ms, process_ms = (min(times) for times in zip(*own, strict=True))
    off_thread_ms, off_process_ms = (min(times) for times in zip(*off, strict=True))
    return Cost(
        thread_ms=thread_ms,
        process_ms=process_ms,
        thread_ratio=thread_ms / off_thread_ms,
        thread_ratio_quartiles=(low, high),
        process_ratio=process_ms / off_process_ms,
    )
