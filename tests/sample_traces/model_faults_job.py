"""A small model that trains for real in one process, with one fault of the model from a step on.

python -m tests.sample_traces.model_faults_job RUNS FAULT
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence

import torch
from torch import nn

import trace_hooks as th
from sample_traces.jobs.model import GPTSizes, Sequences, Stage, build_stage, token_loss

STEPS, FROM, BATCH = 24, 12, 4
SIZES = GPTSizes(num_layers=3, width=32, num_heads=4, vocabulary=64, seq_len=24)
LAYER = "1"


def kill_units(model: Stage, optimizer: torch.optim.Optimizer) -> None:
    """A bias so low that no unit of one MLP is ever above its rectifier."""
    model.blocks[LAYER].mlp.up.bias.fill_(-1e4)


def grow_logits(model: Stage, optimizer: torch.optim.Optimizer) -> None:
    """Queries and keys of one layer several times as large."""
    _scale(model, 60.0)


def collapse_attention(model: Stage, optimizer: torch.optim.Optimizer) -> None:
    """So large that every query sees one key alone."""
    _scale(model, 2000.0)


def stall(model: Stage, optimizer: torch.optim.Optimizer) -> None:
    """A learning rate of next to nothing."""
    optimizer.param_groups[0]["lr"] = 1e-12


def nothing(model: Stage, optimizer: torch.optim.Optimizer) -> None:
    """The healthy twin."""


FAULTS: dict[str, Callable[[Stage, torch.optim.Optimizer], None]] = {
    "dead_units": kill_units,
    "logit_growth": grow_logits,
    "attention_entropy_collapse": collapse_attention,
    "stalled_updates": stall,
    "healthy": nothing,
}


def _scale(model: Stage, times: float) -> None:
    weight = model.blocks[LAYER].attention.qkv.weight
    by_head = weight.unflatten(0, (SIZES.num_heads, 3, -1))
    by_head[:, :2] *= times


def main(arguments: Sequence[str]) -> None:
    """Train."""
    runs, fault = arguments
    torch.manual_seed(1)
    torch.set_num_threads(1)
    model = build_stage(SIZES, 0, 1, seed=1)
    for block in model.blocks.values():
        block.mlp.up = nn.Linear(SIZES.width, 4 * SIZES.width)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, foreach=False)
    data = Sequences(SIZES, 1, STEPS * BATCH, BATCH, [])
    tracer = th.start(runs, run=fault, model=model, statistics=1)
    tracer.watch(model, stage=0)
    for step in range(STEPS):
        with tracer.step(step):
            if step == FROM:
                with torch.no_grad():
                    FAULTS[fault](model, optimizer)
            tokens = torch.stack([data[step * BATCH + at] for at in range(BATCH)])
            loss = token_loss(model(tokens[:, :-1]), tokens[:, 1:])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            time.sleep(0.1)  # what comes too quickly to be written is dropped
            tracer.log(loss=loss.item(), lr=optimizer.param_groups[0]["lr"])
    tracer.stop()


if __name__ == "__main__":
    main(sys.argv[1:])
