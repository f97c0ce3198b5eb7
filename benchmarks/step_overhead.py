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
from typing import NamedTuple

import torch
from timing import in_turns
from torch import nn
from torch.profiler import ProfilerActivity, profile

import trace_hooks as th
from sample_traces.jobs.model import GPTSizes, build_stage
from trace_hooks.recording import guard

STEPS = 12
"""Of a turn: longer than the 0.7 s between two writes of the hooks."""
SIZES = GPTSizes(num_layers=4, width=256, num_heads=8, seq_len=128)
BATCH = 1
MICROBATCHES = 2


class Training:
    """A GPT trained in one process."""

    def __init__(self) -> None:
        torch.manual_seed(0)
        self.model: nn.Module = build_stage(SIZES, 0, 1, 0)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-4, foreach=False)
        shape = (MICROBATCHES, BATCH, SIZES.seq_len)
        self.tokens = torch.randint(SIZES.vocabulary, shape)

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
def hooks(level: str, training: Training, collects: bool = True) -> Iterator[Callable[[], object]]:
    """The step under our hooks, all sources installed; `collects`: with the host's collector."""
    with tempfile.TemporaryDirectory() as folder:
        os.environ["TRACE_HOOKS_COLLECTOR"] = "1" if collects else "0"
        tracer = th.start(folder, model=training.model, level=level)

        def step() -> None:
            with tracer.step():
                tracer.log(loss=training.step())

        yield step
        tracer.stop()


@contextmanager
def profiler(details: bool, training: Training) -> Iterator[Callable[[], object]]:
    """The step under torch.profiler; what it does after stopping is not measured."""
    with profile(activities=[ProfilerActivity.CPU], with_stack=details, record_shapes=details):
        yield training.step


WAYS: dict[str, Callable[[Training], object]] = {
    "off (null)": nothing,
    "hooks, level steps": partial(hooks, "steps"),
    "hooks, level blocks": partial(hooks, "blocks"),
    "hooks, level layers": partial(hooks, "layers"),
    "hooks, level layers, own files": partial(hooks, "layers", collects=False),
    "torch.profiler": partial(profiler, False),
    "torch.profiler, stacks + shapes": partial(profiler, True),
}


@dataclass(frozen=True)
class Cost:
    """CPU time of a step: the least seen, and its ratio to steps without anything around it.

    Each turn of a way has steps of `off` right before and after it; the ratios are medians over the
    turns. On a shared machine the same step takes half as long again for minutes, so only
    neighbours compare; the quartiles show how much is left of that.
    """

    thread_ms: float
    thread_ratio: float
    thread_ratio_quartiles: tuple[float, float]
    process_ratio: float
    own_account_ms: float
    """what the hooks say they took, without what torch does to call them"""


def step_costs(rounds: int, only: str = "") -> dict[str, Cost]:
    """Cost by way of watching; each round runs every way once, in another order. `only`: the ways
    with this in their names.
    """
    ways = [name for name in WAYS if only in name]
    os.environ.setdefault("TRACE_HOOKS_RUN", "benchmark")
    training = Training()
    turns = in_turns(ways, rounds, lambda name: _turn(training, name))
    return {name: _cost(turns[name]) for name in ways}


class Measured(NamedTuple):
    """CPU ms of a step."""

    thread: float  # the least of STEPS steps
    process: float  # the mean; more than the step: the drain thread writes meanwhile
    own_account: float  # the mean of what the hooks say they took of the thread's time


class Turn(NamedTuple):
    """One way, and `off` right before and after it."""

    own: Measured
    off: tuple[Measured, Measured]


def _turn(training: Training, name: str) -> Turn:
    before = _measured(training.step)
    with WAYS[name](training) as step:  # type: ignore[attr-defined]
        own = _measured(step)
    return Turn(own, (before, _measured(training.step)))


def _measured(step: Callable[[], object]) -> Measured:
    """STEPS steps after one to warm up."""
    step()
    thread = []
    process_begun, self_begun = time.process_time_ns(), guard.account.training_ns
    for _ in range(STEPS):
        begun = time.thread_time_ns()
        step()
        thread.append((time.thread_time_ns() - begun) / 1e6)
    process = (time.process_time_ns() - process_begun) / STEPS / 1e6
    return Measured(min(thread), process, (guard.account.training_ns - self_begun) / STEPS / 1e6)


def _cost(turns: list[Turn]) -> Cost:
    ratios = [2 * own.thread / (off[0].thread + off[1].thread) for own, off in turns]
    process_ratios = [2 * own.process / (off[0].process + off[1].process) for own, off in turns]
    low, middle, high = statistics.quantiles(ratios, n=4)
    return Cost(
        thread_ms=min(turn.own.thread for turn in turns),
        thread_ratio=middle,
        thread_ratio_quartiles=(low, high),
        process_ratio=statistics.median(process_ratios),
        own_account_ms=statistics.median(turn.own.own_account for turn in turns),
    )
