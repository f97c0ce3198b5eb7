"""A run whose tensors have statistics, as a job with statistics=10 records them: one layer's
gradients vanish, another's residual stream and the logits of one of its heads blow up.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from tests.runs_builder import T0, RunBuilder
from trace_hooks.layout import ParallelLayout
from trace_hooks.sources.tensors.histograms import statistics

NUM_LAYERS, NUM_STEPS, EVERY = 6, 12, 10
VANISHING, EXPLODING = 1, 4
NONFINITE_STEP = 110
NUM_HEADS, LOUD_HEAD = 4, 2


def health_run(folder: Path, tokens: float | None = None) -> RunBuilder:
    """Two pipeline stages of three layers each; `tokens` of a step, as each rank logs them."""
    run = RunBuilder(folder, 2, ParallelLayout.from_sizes(pp=2))
    random = np.random.default_rng(3)
    for step in range(0, NUM_STEPS * EVERY, EVERY):
        for rank in range(2):
            run.step(rank, step, 1000.0 * step, 1000.0 * step + 900, loss=3.0, tokens=tokens)
            for layer in range(3 * rank, 3 * rank + 3):
                _layer(run, rank, step, layer, random)
        _add(run, 0, step, "output", -1, "embedding", random.normal(0, 1, 200))
    run.rank_files()
    run.publish()
    return run


def _layer(run: RunBuilder, rank: int, step: int, layer: int, random: np.random.Generator) -> None:
    name = f"layers.{layer}"
    size = 2.0 ** (step / 10) if layer == EXPLODING else 1.0 + layer / 10
    values = random.normal(0, size, 300)
    if layer == EXPLODING and step == NONFINITE_STEP:
        values[7] = np.nan
    _add(run, rank, step, "residual", layer, name, values)
    _add(run, rank, step, "mlp", layer, f"{name}.mlp", np.maximum(values, 0))
    for head in range(NUM_HEADS):
        is_loud = layer == EXPLODING and head == LOUD_HEAD
        run.add(
            "attention_stats",
            rank,
            step,
            **_sampled(rank, step, layer, f"{name}.attention"),
            head=head,
            rows=16,
            max_logit=2.0 ** (step / 10) if is_loud else 4.0,
            entropy=2.0 / (1 + head),
        )
    faint = 10.0 ** (-3 - step / 18) if layer == VANISHING else 1e-3
    for part in ("attention", "mlp"):
        place = f"{name}.{part}"
        _add(run, rank, step, "gradient", layer, place, random.normal(0, faint, 300))
        _add(run, rank, step, "weight", layer, place, random.normal(0, 0.02, 300))
        _add(run, rank, step, "update", layer, place, random.normal(0, 2e-5, 300))


def _add(
    run: RunBuilder, rank: int, step: int, tensor: str, layer: int, name: str, values: np.ndarray
) -> None:
    values = values.astype(np.float32)
    computed = statistics(values, values.size, float(np.abs(values).max()))
    where = _sampled(rank, step, layer, name)
    run.add("tensor_stats", rank, step, **where, tensor=tensor, **computed)


def _sampled(rank: int, step: int, layer: int, name: str) -> dict[str, Any]:
    """When and where a sample was taken."""
    return {
        "ts_ns": T0 + step * 1_000_000,
        "chunk": rank,
        "layer": layer,
        "name": name,
        "shard": "whole",
    }
