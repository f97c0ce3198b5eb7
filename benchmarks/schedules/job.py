"""A pipeline of torch.distributed.pipelining whose operations sleep for given times.

python -m benchmarks.schedules.job SCHEDULE DURATIONS RUNS STEPS

So that the schedule is measured, not the number of cores: real ranks, real transfers (gloo) and
torch's own schedules, but a forward or backward sleeps instead of computing. DURATIONS: JSON
{"forward": [[[s, ...]]], "backward": ...} by step, stage and micro-batch; steps begin again after
the last. A stage that is divided into two chunks sleeps half as long in each; where weights run
apart, they get half of a backward.
"""

from __future__ import annotations

import json
import socket
import sys
import time
from argparse import Namespace
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh

import trace_hooks as th
from sample_traces.jobs.launch import init_process_group, launch
from sample_traces.jobs.parallel import build_schedule
from sample_traces.jobs.schedules import num_stages, stage_indices

WIDTH = 8


class Sleep(torch.autograd.Function):
    """The identity; its backward sleeps."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, seconds: float) -> Tensor:
        """A copy."""
        ctx.seconds = seconds
        return x.clone()

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:  # type: ignore[override]
        """The gradient, late."""
        time.sleep(ctx.seconds)
        return gradient.clone(), None


class SleepingStage(nn.Module):
    """One (virtual) stage. `seconds`: (forward, backward of inputs, of weights) of each call."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(WIDTH))
        self.weight.register_hook(self._weights)
        self.times: list[tuple[float, float, float]] = []
        self._forwards = self._weight_calls = 0

    def begin_step(self, times: list[tuple[float, float, float]]) -> None:
        """Times of the micro-batches of the step that begins."""
        self.times, self._forwards, self._weight_calls = times, 0, 0

    def forward(self, x: Tensor) -> Tensor:
        """(B, WIDTH) -> the same."""
        if not self.times:  # torch looks at shapes before the first step
            return x * self.weight
        forward_s, backward_s, _ = self.times[self._forwards % len(self.times)]
        self._forwards += 1
        time.sleep(forward_s)
        scaled: Tensor = Sleep.apply(x * self.weight, backward_s)
        return scaled

    def _weights(self, gradient: Tensor) -> None:
        if self.times:
            time.sleep(self.times[self._weight_calls % len(self.times)][2])
            self._weight_calls += 1


def train(options: Namespace, listener: socket.socket | None) -> None:
    """One rank."""
    torch.set_num_threads(1)
    device = torch.device("cpu")
    init_process_group(device, listener)
    p = dist.get_world_size()
    mesh = init_device_mesh("cpu", (p, 1, 1), mesh_dim_names=("pp", "dp", "tp"))
    tracer = th.start(options.runs, layout=th.ParallelLayout.from_device_mesh(mesh))
    rank = dist.get_rank()
    indices = stage_indices(options.schedule, rank, p)
    stages = [SleepingStage() for _ in indices]
    for index, stage in zip(indices, stages, strict=True):
        tracer.watch(stage, stage=index)
    num = len(options.times["forward"][0][0])
    schedule = build_schedule(options.schedule, stages, mesh, device, num, _loss)
    last = num_stages(options.schedule, p) - 1
    inputs = torch.ones(num, WIDTH, requires_grad=True)
    for step in range(options.steps):
        with tracer.step(step):
            at = step % len(options.times["forward"])
            forward, backward = (options.times[k][at][rank] for k in ("forward", "backward"))
            parts = len(stages)
            for stage in stages:
                stage.begin_step(
                    [
                        (f / parts, b / parts / 2, b / parts / 2)
                        for f, b in zip(forward, backward, strict=True)
                    ]
                )
            losses: list[Tensor] = []
            given = (inputs.detach().clone(),) if 0 in indices else ()
            named = {"target": torch.zeros(num, WIDTH), "losses": losses} if last in indices else {}
            schedule.step(*given, **named)
            dist.barrier()
    tracer.stop()
    dist.destroy_process_group()


def _loss(output: Tensor, target: Tensor) -> Tensor:
    return (output - target).square().mean()


def main() -> int:
    schedule, durations, runs, steps = sys.argv[1:]
    times = json.loads(Path(durations).read_text(encoding="utf-8"))
    options = Namespace(schedule=schedule, times=times, runs=Path(runs), steps=int(steps))
    return launch(train, options, len(times["forward"][0]))


if __name__ == "__main__":
    sys.exit(main())
