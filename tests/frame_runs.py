"""A run that was watched: attention of every head, MLP and residual stream of every layer."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import numpy as np

from ingest.run import Run
from tests.runs_builder import T0, RunBuilder, two_rank_run
from trace_hooks.layout import ParallelLayout
from trace_hooks.protocol.frames import Frame, stored

NUM_LAYERS, NUM_HEADS, NUM_TOKENS, NUM_FEATURES = 4, 6, 24, 96
STEPS = (10, 20, 30)
TOKENS = [f"t{at}" for at in range(NUM_TOKENS - 1)] + ["<b>"]
DAY_NS = 86_400 * 10**9
AGES = (40, 20, 1)
"""Days since the frames of a content_run's files were captured."""
Matrix = np.ndarray


def attention(step: int, layer: int, head: int) -> Matrix:
    """Causal attention of a head: sharper with each step, looking back by the head's number."""
    back = np.arange(NUM_TOKENS)[:, None] - np.arange(NUM_TOKENS)[None, :]
    logits = -np.abs(back - head) * (1 + layer) * step / 30
    logits = np.where(back >= 0, logits, -np.inf)
    found = np.exp(logits - logits.max(axis=1, keepdims=True))
    return (found / found.sum(axis=1, keepdims=True)).astype(np.float32)


def mlp(step: int, layer: int, shard: int) -> Matrix:
    """Half of an MLP's output, which has both signs."""
    random = np.random.default_rng((step, layer, shard))
    return random.normal(0, 1 + layer, (NUM_TOKENS, NUM_FEATURES // 2)).astype(np.float32)


def residual(step: int, layer: int) -> Matrix:
    """Hidden states that grow over the layers, more with each step."""
    random = np.random.default_rng(5)
    own, common = random.normal(0, 1, (2, NUM_TOKENS, NUM_FEATURES))
    return (own + (1 + layer) * step / 10 * common[:1] + layer * common).astype(np.float32)


def frame_run(folder: Path) -> RunBuilder:
    """TP 2: each rank has half of the heads and half of the features."""
    run = RunBuilder(folder, 2, ParallelLayout.from_sizes(tp=2))
    for step in range(0, 40, 10):
        for rank in range(2):
            run.step(rank, step, 1000.0 * step, 1000.0 * step + 900)
    for step in STEPS:
        for layer in range(NUM_LAYERS):
            for head in range(NUM_HEADS):
                _add(run, head // 3, step, "attention", layer, head, attention(step, layer, head))
            for shard in range(2):  # under sequence parallelism each has half of the tokens
                half = slice(shard * NUM_TOKENS // 2, (shard + 1) * NUM_TOKENS // 2)
                _add(
                    run, shard, step, "residual", layer, -1, residual(step, layer)[half], half.start
                )
                _add(run, shard, step, "mlp", layer, -1, mlp(step, layer, shard))
    run.rank_files(end={"ts_ns": T0 + 10**9, "status": "finished", "error": None})
    run.publish()
    return run


def next_tokens_run(folder: Path) -> RunBuilder:
    """Two attempts, with what a watch of the logits gives. In the first, each rank has half of a
    vocabulary of eight tokens, all as probable. In the second, one rank has the three most probable
    next tokens of each, and the loss of the true one, which is the second of them.
    """
    run = RunBuilder(folder, 2, ParallelLayout.from_sizes(tp=2))
    ids = np.arange(NUM_TOKENS) % 7
    true = [[int(one), f"w{one}"] for one in np.roll(ids, -1)]
    best_RK = np.tile(np.float32([0.5, 0.25, 0.125]), (NUM_TOKENS, 1))
    labels = [one for token in true for one in ([7, "w7"], token, [8, "w8"])]
    for attempt in range(2):
        for rank in range(2):
            run.step(rank, STEPS[0], 0.0, 900.0, attempt=attempt)
        for head in range(NUM_HEADS):
            values = attention(STEPS[1 + attempt], 0, head)
            _add(run, head // 3, STEPS[0], "attention", 0, head, values, attempt=attempt)
        run.rank_files(attempt)
    for rank in range(2):
        logits, half = np.zeros((NUM_TOKENS, 4)), range(4 * rank, 4 * rank + 4)
        _add(run, rank, STEPS[0], "logits", -1, -1, logits.astype(np.float32))
        known_part = np.array([[0, 0, np.log(4), 0 if one in half else np.nan] for one, _ in true])
        each = [named for one in true for named in (half[0], half[1], None, one)]
        _add(
            run,
            rank,
            STEPS[0],
            "vocabulary_part",
            -1,
            -1,
            known_part.astype(np.float32),
            labels=each,
            shard=f"tp={rank} of 2",
        )
    for what, values, named in (
        ("tokens", ids[:, None], [f"w{one}" for one in ids]),
        ("probabilities", best_RK, labels),
        ("token_loss", np.full((NUM_TOKENS, 1), 1.5), true),
    ):
        values = values.astype(np.float32)
        _add(run, 0, STEPS[0], what, -1, -1, values, attempt=1, labels=named, shard="whole")
    run.publish()
    return run


def _add(
    run: RunBuilder,
    rank: int,
    step: int,
    what: str,
    layer: int,
    head: int,
    values: Matrix,
    row_begin: int = 0,
    **more: Any,
) -> None:
    exact = what in ("token_loss", "vocabulary_part")
    dtype = "uint8" if what == "attention" else "float32" if exact else "float16"
    labels = more.pop("labels", TOKENS if what == "attention" else None)
    run.add(
        "frames",
        rank,
        step,
        ts_ns=T0 + step * 1_000_000,
        watch=what,
        what=what,
        layer=layer,
        head=head,
        name=f"layers.{layer}.{what}",
        sample=0,
        row_begin=row_begin,
        row_every=1,
        shape=list(values.shape),
        **stored(values, dtype).columns(),
        cost_ns=1_500_000,
        labels=json.dumps(labels) if labels else None,
        **{"shard": f"tp={rank}", **more},
    )


def small_frame(step: int = 0, head: int = 0, num_bytes: int = 8, **more: Any) -> Frame:
    """Attention of one head, of so many bytes."""
    values = np.full(num_bytes // 2, step, dtype=np.float32)
    known = {"watch": "w1", "what": "attention", "layer": 1, "name": "a", "sample": 0}
    known |= {"step": step, "ts_ns": 1, "head": head, "shape": values.shape}
    return Frame(**(known | stored(values).columns() | more))


def frame_row(data: bytes, ts_ns: int = T0) -> dict[str, Any]:
    """Columns of a frame of these bytes, for RunBuilder.add."""
    frame = Frame(
        step=0,
        ts_ns=ts_ns,
        watch="w1",
        what="mlp",
        layer=0,
        name="layers.0.mlp",
        shape=(len(data),),
        dtype="uint8",
        data=data,
    )
    row = {**frame.header(), "data": data}
    return {name: value for name, value in row.items() if name not in ("attempt", "rank", "step")}


def content_run(folder: Path) -> RunBuilder:
    """A run with three files of frames, each with one frame, whose bytes are its age."""
    run = two_rank_run(folder)
    for days in AGES:
        run.add(
            "frames", 0, days, **frame_row(bytes([days]) * 1000, time.time_ns() - days * DAY_NS)
        )
        run.publish()
    return run


def kept(run: Run) -> list[int]:
    """Ages of the frames that can be read."""
    rows = run.sql("SELECT step FROM frames ORDER BY ts_ns", with_content=True).to_pylist()
    return [row["step"] for row in rows]
