"""Tables tensor_stats and attention_stats of a synthetic job, for one block of ranks at a time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sample_traces.generate.durations import Float
from sample_traces.generate.tables.blocks import Block
from sample_traces.generate.tables.model_health import (
    GROUPS,
    LAYERS_PER_STAGE,
    NUM_HEADS,
    OUTPUTS,
    ModelHealth,
)
from sample_traces.generate.tables.rows import Rows
from trace_hooks.sources.tensors.histograms import MAX_VALUES, log2_counts

COUNT = 1 << 20
"""Values of each tensor."""

ROWS = 64
"""Query rows of each head."""

PEAK_PER_RMS = 5.0


def model_tables(block: Block, health: ModelHealth) -> dict[str, pa.Table]:
    """Both tables; without rows where the job records no statistics."""
    tensors, heads = block.rows("tensor_stats"), block.rows("attention_stats")
    every = block.job.statistics_every
    if every:
        look_S = np.arange(0, block.job.steps_completed, every)
        for stage, rank in _writers(block):
            ended_S = block.of(block.whole.times.ended)[look_S, rank - block.rank[0]]
            where = {"step": look_S, "ts_ns": ended_S, "chunk": stage}
            for layer in range(stage * LAYERS_PER_STAGE, (stage + 1) * LAYERS_PER_STAGE):
                samples = _Samples(health, rank, layer, look_S, where)
                _add_tensors(tensors, samples)
                _add_heads(heads, samples)
    return {"tensor_stats": tensors.to_arrow(), "attention_stats": heads.to_arrow()}


def _writers(block: Block) -> Iterator[tuple[int, int]]:
    """(stage, rank) of the stages whose first rank is in the block."""
    per_stage = block.job.dp * block.job.tp
    for stage in range(block.job.pp):
        if stage * per_stage in block.rank:
            yield stage, stage * per_stage


class _Samples(NamedTuple):
    """The samples of one layer, S steps."""

    health: ModelHealth
    rank: int  # that writes them
    layer: int
    look_S: npt.NDArray[np.int64]
    where: dict[str, Any]  # columns of all its rows


def _add_tensors(rows: Rows, samples: _Samples) -> None:
    health, rank, layer, look_S, where = samples
    for tensor, path in OUTPUTS.items():
        rms_S = health.output_rms[tensor][layer, look_S]
        zero_S = health.output_zero[tensor][layer, look_S]
        named = {"tensor": tensor, "name": f"layers.{layer}{path}", "microbatch": 0, **where}
        rows.add([rank], layer=layer, **named, **_values(rms_S, zero_S))
    for group in GROUPS:
        named = {"name": f"layers.{layer}.{group}", **where}
        weight_S = health.weight_rms[group][layer, look_S]
        ratio_S = health.ratio[group][layer, look_S]
        gradient = _values(
            health.gradient_rms[group][layer, look_S], health.gradient_zero[group][layer, look_S]
        )
        nothing_S = np.zeros(look_S.size)
        update = _values(ratio_S * weight_S, nothing_S) | {"update_ratio": ratio_S}
        rows.add([rank], layer=layer, tensor="gradient", **named, **gradient)
        rows.add([rank], layer=layer, tensor="weight", **named, **_values(weight_S, nothing_S))
        rows.add([rank], layer=layer, tensor="update", **named, **update)


def _values(rms_S: Float, zero_S: Float) -> dict[str, Any]:
    """Columns from count to log2_counts of values around 0; the histogram is of a typical step."""
    typical = float(np.median(rms_S))
    sizes = typical * np.abs(np.random.default_rng(0).standard_normal(MAX_VALUES))
    return {
        "shard": "whole",
        "count": COUNT,
        "sampled": MAX_VALUES,
        "mean": 0.0,
        "std": rms_S,
        "rms": rms_S,
        "absmax": PEAK_PER_RMS * rms_S,
        "zero_ratio": zero_S,
        "nonfinite": 0,
        "log2_counts": log2_counts(sizes[sizes > 0]).tolist(),
    }


def _add_heads(rows: Rows, samples: _Samples) -> None:
    health, rank, layer, look_S, where = samples
    head_H1 = np.arange(NUM_HEADS)[:, None]
    rows.add(
        [rank],
        layer=layer,
        head=head_H1,
        name=f"layers.{layer}.attention",
        shard="whole",
        microbatch=0,
        max_logit=health.logit_LHS[layer][:, look_S],
        entropy=health.entropy_LHS[layer][:, look_S],
        rows=ROWS,
        **where,
    )
