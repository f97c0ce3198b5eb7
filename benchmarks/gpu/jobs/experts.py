"""Trains the model with experts in one process; hands over the bits of its losses.

python -m benchmarks.gpu.jobs.experts eager|graph cuda|cpu FOLDER none|hooks
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import torch

from benchmarks.gpu.children import hand_over
from benchmarks.gpu.figures import Place
from benchmarks.gpu.jobs.failing import captured, side_stream
from benchmarks.gpu.mixture import EXPERTS, MixtureTraining
from benchmarks.gpu.training import compute_the_same_twice

STEPS, EAGER_STEPS = 12, 4

Step = Callable[[], AbstractContextManager[object]]


def main() -> None:
    what, device, folder, hooks = sys.argv[1], sys.argv[2], Path(sys.argv[3]), sys.argv[4]
    place = Place(device, folder, print)
    compute_the_same_twice()
    training = MixtureTraining(place)
    with _recorded(training, folder, hooks) as step:
        losses = (_graph if what == "graph" else _eager)(place, training, step)
        place.wait()
    hand_over(torch.stack(losses).float().cpu().view(torch.int32).tolist())


@contextlib.contextmanager
def _recorded(training: MixtureTraining, folder: Path, hooks: str) -> Iterator[Step]:
    if hooks == "none":
        yield contextlib.nullcontext
        return
    import trace_hooks as th

    tracer = th.start(folder / "runs", run="experts", model=training.model)
    for router in training.routers:
        tracer.router(router, EXPERTS)
    yield tracer.step
    tracer.stop()


def _eager(place: Place, training: MixtureTraining, step: Step) -> list[torch.Tensor]:
    losses = []
    for _ in range(STEPS):
        with step():
            losses.append(training.step())
    return losses


def _graph(place: Place, training: MixtureTraining, step: Step) -> list[torch.Tensor]:
    """Some steps as they are, then forward and backward in a CUDA graph captured inside of a step:
    the hooks of the routers run under the capture.
    """
    losses, tokens = [], training.inputs[0].clone()
    with side_stream(place):
        for _ in range(EAGER_STEPS):
            with step():
                losses.append(training.step())
    training.optimizer.zero_grad(set_to_none=True)
    with step():
        replay, loss = captured(place, lambda: training.forward_and_backward(tokens))
    for number in range(STEPS):
        with step():
            tokens.copy_(training.inputs[number % len(training.inputs)])
            replay()
            training.optimizer.step()
            losses.append(loss().clone())
    return losses


if __name__ == "__main__":
    main()
