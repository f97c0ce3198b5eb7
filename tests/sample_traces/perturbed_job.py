"""The real job with perturbations requested on every rank; its weights are checked on the way.

python -m tests.sample_traces.perturbed_job FOLDER, then the options of train_3d. Reads
FOLDER/requests.json, a list of perturbations; writes FOLDER/acks.RANK.json and
FOLDER/seen.RANK.npz, arrays named WHAT|STEP|NAME: each parameter's own part after the backward pass
("backward"), as the optimizer got it ("given") and as it left it ("left"); what blocks handed on
("output"); the random state after the step ("random").
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from torch import nn
from torch.optim.optimizer import (
    register_optimizer_step_post_hook,
    register_optimizer_step_pre_hook,
)

import trace_hooks as th
from sample_traces.jobs import train_3d
from trace_hooks.tracer import Tracer


class Looking:
    """What one rank sees."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.seen: dict[str, np.ndarray] = {}
        self.acks: list[str] = []
        self.tracer: Tracer | None = None
        self.models: list[nn.Module] = []

    def started(self, start: Callable[..., Tracer]) -> Callable[..., Tracer]:
        """trace_hooks.start, and then the requests."""

        def begin(*args: Any, **kwargs: Any) -> Tracer:
            register_optimizer_step_pre_hook(lambda *_: self.keep("backward"))
            self.tracer = tracer = start(*args, **kwargs)  # its hook is in the middle
            register_optimizer_step_pre_hook(lambda *_: self.keep("given"))
            register_optimizer_step_post_hook(lambda *_: self.keep("left"))
            watch, stop = tracer.watch, tracer.stop

            def watched(model: nn.Module, stage: int | None = None) -> None:
                watch(model, stage)
                self.models.append(model)
                for name, block in model.blocks.items():
                    block.register_forward_hook(self.output(name))

            def stopped() -> None:
                stop()
                rank = dist.get_rank()
                np.savez(self.folder / f"seen.{rank}.npz", **self.seen)  # type: ignore[arg-type]
                (self.folder / f"acks.{rank}.json").write_text(json.dumps(self.acks))

            tracer.watch, tracer.stop = watched, stopped  # type: ignore[method-assign,assignment]
            return tracer

        return begin

    def output(self, layer: str) -> Callable[..., None]:
        """Keeps what a block hands on in the first micro-batch."""

        def keep(module: nn.Module, args: Any, output: torch.Tensor) -> None:
            if self.tracer is not None and self.tracer.context.rank_state.microbatch == 0:
                self.seen[f"output|{self.step}|{layer}"] = output.detach().numpy().copy()

        return keep

    @property
    def step(self) -> int:
        """Under way."""
        assert self.tracer is not None
        return self.tracer.context.rank_state.step

    def keep(self, when: str) -> None:
        """Every parameter's part of this rank, as it is."""
        for model in self.models:
            for name, parameter in model.named_parameters():
                own = parameter.to_local() if hasattr(parameter, "to_local") else parameter
                self.seen[f"{when}|{self.step}|{name}"] = own.detach().numpy().copy()
        self.seen[f"random|{self.step}|"] = torch.get_rng_state().numpy()
        if when == "left" and self.step == 0:
            for request in json.loads((self.folder / "requests.json").read_text()):
                assert self.tracer is not None
                self.acks.append(self.tracer.perturb(request).text)


def main(arguments: Sequence[str]) -> int:
    """Train."""
    folder, *options = arguments
    th.start = Looking(Path(folder)).started(th.start)  # type: ignore[assignment]
    return train_3d.main(options)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
