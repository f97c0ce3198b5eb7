"""A job that meets a failure; hands over the bits of its losses.

python -m benchmarks.gpu.jobs.failing oom|graph|assert cuda|cpu FOLDER none|hooks|all

`all`: hooks with statistics and a watch of each kind of content in every step.
"""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import torch

from benchmarks.gpu.children import hand_over
from benchmarks.gpu.figures import Place
from benchmarks.gpu.parts.content import WATCHES
from benchmarks.gpu.training import SMALL, Training, compute_the_same_twice
from sample_traces.jobs.model import token_loss

STEPS, EVENT_AT = 10, 4
"""Number of steps, and the step with the failure."""

MEMORY_LIMIT = 4 << 30
"""Bytes that torch's allocator may take in the job that runs out of memory."""

CAPTURE_S = 1.5
"""How long a graph is under capture: the hooks' thread looks at the device several times."""

ASSERTS = "CUDA error: device-side assert triggered"

Step = Callable[[], AbstractContextManager[None]]


def main() -> None:
    what, device, folder, hooks = sys.argv[1], sys.argv[2], Path(sys.argv[3]), sys.argv[4]
    place = Place(device, folder, print)
    compute_the_same_twice()
    training = Training(place, SMALL)
    with _recorded(training, folder, hooks) as step:
        losses = {"oom": _oom, "graph": _graph, "assert": _assert}[what](training, step)
        place.wait()
    bits = torch.stack(losses).float().cpu().view(torch.int32)
    hand_over(bits.tolist())


@contextlib.contextmanager
def _recorded(training: Training, folder: Path, hooks: str) -> Iterator[Step]:
    """Steps, recorded or not. On an exception the hooks end as in any job: at exit."""
    if hooks == "none":
        yield contextlib.nullcontext
        return
    import trace_hooks as th

    more: dict[str, Any] = {"statistics": 1, "allow_content": True} if hooks == "all" else {}
    tracer = th.start(folder / "runs", run="failing", model=training.model, **more)
    if hooks == "all":
        tracer.inspect(*WATCHES)
    yield tracer.step
    tracer.stop()


def _oom(training: Training, step: Step) -> list[torch.Tensor]:
    """A batch that does not fit in the middle of the job, which continues without it."""
    place, losses, times_out = training.place, [], 0
    if not place.is_rehearsal:
        total = torch.cuda.get_device_properties(0).total_memory
        torch.cuda.set_per_process_memory_fraction(min(1.0, MEMORY_LIMIT / total))
    for number in range(STEPS):
        with step():
            if number == EVENT_AT:
                try:
                    _too_large(training)
                except torch.cuda.OutOfMemoryError:
                    times_out += 1
                    training.optimizer.zero_grad(set_to_none=True)
            losses.append(training.step())
    print(f"out of memory {times_out} times")
    return losses


def _too_large(training: Training) -> None:
    """Runs out of memory inside a block of the model: all of them together save 4 GiB and more."""
    if training.place.is_rehearsal:
        raise torch.cuda.OutOfMemoryError("rehearsed")
    tokens = training.tokens[0].repeat(2_000, 1)
    token_loss(training.model(tokens), tokens).backward()


def _graph(training: Training, step: Step) -> list[torch.Tensor]:
    """Forward and backward in a CUDA graph, captured while the hooks have work under way."""
    place, model, optimizer = training.place, training.model, training.optimizer
    tokens = training.tokens[0].clone()
    losses = []

    def forward_and_backward() -> torch.Tensor:
        loss = token_loss(model(tokens), tokens)
        loss.backward()
        return loss.detach()

    with side_stream(place):
        for _ in range(EVENT_AT):
            with step():
                losses.append(training.step())
    optimizer.zero_grad(set_to_none=True)
    replay, loss = captured(place, forward_and_backward)
    for number in range(STEPS):
        with step():
            tokens.copy_(training.tokens[number % len(training.tokens)])
            replay()
            optimizer.step()
            losses.append(loss().clone())
    return losses


@contextlib.contextmanager
def side_stream(place: Place) -> Iterator[None]:
    """What is captured must have run on another stream than the default one before."""
    if place.is_rehearsal:
        yield
        return
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        yield
    torch.cuda.current_stream().wait_stream(stream)


def captured(
    place: Place, work: Callable[[], torch.Tensor]
) -> tuple[Callable[[], object], Callable[[], torch.Tensor]]:
    """How to replay a graph of `work`, and what it returned."""
    held: list[torch.Tensor] = []
    if place.is_rehearsal:
        return lambda: held.__setitem__(slice(None), [work()]), lambda: held[0]
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):  # the default mode: "global"
        held.append(work())
        time.sleep(CAPTURE_S)
    return graph.replay, lambda: held[0]


def _assert(training: Training, step: Step) -> list[torch.Tensor]:
    """An index outside of a tensor on the device: nothing works on it from then on."""
    losses = []
    for number in range(STEPS):
        with step():
            losses.append(training.step())
            if number == EVENT_AT:
                _break_device(training.place)
            losses[-1].item()
    return losses


def _break_device(place: Place) -> None:
    if place.is_rehearsal:
        raise RuntimeError(f"{ASSERTS} (rehearsed)")
    values = torch.zeros(4, device=place.device)
    values[torch.tensor([10], device=place.device)].sum()


if __name__ == "__main__":
    main()
