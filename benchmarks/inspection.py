"""What watching content costs a training step, and how many bytes frames take.

    python benchmarks/inspection.py [--json] [--rounds 10] [--heads 16] [--seq 512]

CPU time of the training thread, not wall time (benchmarks.md says why). Every way of training takes
its turns among the others, in another order each round; a way's ratio compares its steps with those
of `hooks alone` in the same round. `hooks alone, again` is the null: its distance from 1 is what
the measurement cannot tell apart; `hooks without this source` shows what the source costs while
nothing is watched. `shown` is what the watch says of itself on the page. Frames a
second are of wall time, while every step is watched.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

os.environ.setdefault("OMP_NUM_THREADS", "1")

import pyarrow.parquet as pq
import torch
from hook_overhead import conditions
from timing import in_turns
from torch.nn import functional

import trace_hooks as th
from sample_traces.jobs.model import GPTSizes, build_stage
from trace_hooks.watches import MAX_BYTES_PER_S, MAX_ROWS

STEPS = 4
NUM_LAYERS = 4
MEGASCOPE_BYTES = 23
"""Bytes a value takes in MegaScope's JSON (specs: 12.4 GB for 32 heads of 4,096 x 4,096)."""

NEVER = 1_000_000
"""Steps between two captures that no turn reaches: what it costs to be ready."""

WAYS: dict[str, dict[str, Any] | None] = {
    "hooks alone": None,
    "hooks alone, again (null)": None,
    "hooks without this source": {},
    "a watch, steps between": {"what": "attention", "every": NEVER},
    "attention, one head": {"what": "attention", "layers": [1], "heads": [3]},
    "attention, 64 rows of a head": {
        "what": "attention", "layers": [1], "heads": [3], "rows": 64,
    },
    "attention, all heads": {"what": "attention", "layers": [1]},
    "attention, all heads and layers": {"what": "attention"},
    "attention, all, tiles of 64": {"what": "attention", "size": 64},
    "qkv, all heads and layers": {"what": "qkv"},
    "residual, all layers": {"what": "residual"},
    "mlp, all layers": {"what": "mlp"},
    "logits": {"what": "logits"},
    "gradients, all layers": {"what": "gradients"},
    "weights, all layers": {"what": "weights"},
}  # fmt: skip


class Turn(NamedTuple):
    """A few steps one way."""

    thread_ms: float  # median step
    shown_ms: float  # a step, as the watch says
    frames_per_step: float
    num_bytes: int  # of a step's frames
    num_values: int
    frames_per_s: float


@dataclass(frozen=True)
class Cost:
    """CPU ms of a step on the training thread: medians over the rounds, with quartiles."""

    thread_ms: float
    ratio: float
    ratio_quartiles: tuple[float, float]
    more_ms: float
    """than a step of `hooks alone` in the same round"""
    shown_ms: float
    frames_per_step: float
    bytes_per_value: float | None
    frames_per_s: float


class Training:
    """A GPT trained in one process on one sequence a step."""

    def __init__(self, heads: int, seq: int) -> None:
        sizes = GPTSizes(NUM_LAYERS, 16 * heads, heads, seq_len=seq)
        self.model = build_stage(sizes, 0, 1, 0)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-4, foreach=False)
        self.tokens = torch.randint(sizes.vocabulary, (1, seq + 1))

    def step(self) -> torch.Tensor:
        """One optimizer step."""
        self.optimizer.zero_grad()
        logits = self.model(self.tokens[:, :-1])
        loss = functional.cross_entropy(logits.flatten(0, 1), self.tokens[:, 1:].flatten())
        loss.backward()
        self.optimizer.step()
        return loss.detach()


def turn(training: Training, watch: Mapping[str, Any] | None) -> Turn:
    """A few steps watched one way; two before them warm up."""
    with tempfile.TemporaryDirectory() as folder:
        sources = ["-inspection"] if watch == {} else None
        tracer = th.start(folder, model=training.model, allow_content=True, sources=sources)
        if watch:
            more = {"rows": MAX_ROWS, "bytes_per_s": MAX_BYTES_PER_S}
            acks = tracer.inspect({**more, **watch})
            assert all(ack.ok for ack in acks), acks
        found = []
        begun_s = time.monotonic()
        for number in range(1, STEPS + 3):  # not from 0, which every interval captures
            begun = time.thread_time_ns()
            with tracer.step(number):
                training.step()
            found.append((time.thread_time_ns() - begun) / 1e6)
        seconds = time.monotonic() - begun_s
        source: Any = next((one for one in tracer.sources if one.name == "inspection"), None)
        told = source.status()[0] if watch else {"cost_ns": 0, "steps": 0}
        tracer.stop()
        frames = _frames(Path(folder))
    steps = max(1, told["steps"])
    return Turn(
        statistics.median(found[2:]), told["cost_ns"] / 1e6 / steps, len(frames) / steps,
        sum(size for size, _ in frames), sum(values for _, values in frames),
        len(frames) / seconds,
    )  # fmt: skip


def _frames(folder: Path) -> list[tuple[int, int]]:
    """(bytes, values) of each frame that was written."""
    found = []
    for path in folder.glob("*/segments/frames-*.parquet"):
        for row in pq.read_table(path, columns=["data", "dtype"]).to_pylist():
            size = len(row["data"])
            found.append((size, size // (1 if row["dtype"] == "uint8" else 2)))
    return found


def costs(rounds: int, heads: int, seq: int) -> dict[str, Cost]:
    """Cost by way; each round runs every way once, in another order."""
    os.environ.setdefault("TRACE_HOOKS_RUN", "benchmark")
    training = Training(heads, seq)
    turns = in_turns(WAYS, rounds, lambda name: turn(training, WAYS[name]))
    alone = turns["hooks alone"]
    return {name: _cost(own, alone) for name, own in turns.items()}


def _cost(own: list[Turn], alone: list[Turn]) -> Cost:
    pairs = list(zip(own, alone, strict=True))
    ratios = [one.thread_ms / other.thread_ms for one, other in pairs]
    low, middle, high = statistics.quantiles(ratios, n=4)
    values = sum(one.num_values for one in own)
    return Cost(
        statistics.median(one.thread_ms for one in own),
        middle,
        (low, high),
        statistics.median(one.thread_ms - other.thread_ms for one, other in pairs),
        statistics.median(one.shown_ms for one in own),
        statistics.median(one.frames_per_step for one in own),
        sum(one.num_bytes for one in own) / values if values else None,
        statistics.median(one.frames_per_s for one in own),
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    parser.add_argument("--rounds", type=int, default=10, help="turns of each way")
    parser.add_argument("--heads", type=int, default=16)
    parser.add_argument("--seq", type=int, default=512, help="tokens of the sequence")
    options = parser.parse_args()
    torch.set_num_threads(1)
    found = costs(options.rounds, options.heads, options.seq)
    around = conditions(options.rounds) | {
        "model": f"GPT, {NUM_LAYERS} layers, {options.heads} heads of 16, {options.seq} tokens, "
        "one sequence a step, one thread"
    }
    if options.json:
        plain = {name: asdict(cost) for name, cost in found.items()}
        print(json.dumps({"conditions": around, "steps": plain}, indent=1))
        return 0
    for name, value in around.items():
        print(f"{name}: {value}")
    print(
        f"\n{'a training step':32}{'thread ms':>10}{'ratio':>8}{'quartiles':>14}{'more ms':>9}"
        f"{'shown ms':>10}{'frames':>8}{'B/value':>9}{'frames/s':>10}"
    )
    for name, cost in found.items():
        low, high = cost.ratio_quartiles
        size = "" if cost.bytes_per_value is None else f"{cost.bytes_per_value:.2f}"
        print(
            f"{name:32}{cost.thread_ms:10.1f}{cost.ratio:8.3f}{f'{low:.3f}-{high:.3f}':>14}"
            f"{cost.more_ms:9.2f}{cost.shown_ms:10.2f}{cost.frames_per_step:8.0f}{size:>9}"
            f"{cost.frames_per_s:10.1f}"
        )
    print(f"\nMegaScope's JSON has {MEGASCOPE_BYTES} bytes a value")
    return 0


if __name__ == "__main__":
    sys.exit(main())
