"""Cost of capturing content for a training step, the cost shown on the page, and bytes of frames.

    python benchmarks/inspection.py [--json] [--rounds 7] [--heads 16] [--seq 256] [--layers 2]

CPU time of the training thread, not wall time (docs/benchmarks.md explains why). A way of capturing
has one tracer with a permanent capture request; the step numbers alone decide which steps are
captured. Blocks of steps take turns: not captured, captured, not captured, ... A captured block is
compared with the mean of those before and after it. Each of the others is compared with the next of
its kind: this is the null, and the measurement cannot distinguish values within its quartiles.
Before captured steps are measured, enough steps run until memory is reused; before the others, the
drain thread is idle.

`in hooks` is the part of `more` that the hooks took, `shown` the cost on the page: it includes the
drain thread's time for the capture, which slows training by at most that much. A way is covered if
it costs no more than the shown cost and the null's upper quartile.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

os.environ.setdefault("OMP_NUM_THREADS", "1")

import pyarrow.parquet as pq
import torch
from hook_overhead import conditions
from timing import cpu_ns
from torch.nn import functional

import trace_hooks as th
from sample_traces.jobs.model import GPTSizes, build_stage
from trace_hooks.protocol.frames import ITEM_BYTES
from trace_hooks.protocol.watches import MAX_BYTES_PER_S, MAX_ROWS

STEPS = 10
"""Of a block."""

WARM_S = 0.7
"""Of captured steps before those that are measured."""

REST_S = 0.9
"""Without work of the drain thread: longer than it waits with what it writes."""

AT_REST_NS = 5_000_000
"""It does less than this in that time."""

EVERY = 1_000
"""Of the watches: steps of other numbers are not captured."""

MEGASCOPE_BYTES = 23
"""Bytes of a value in MegaScope's JSON (12.4 GB for 32 heads of 4,096 x 4,096)."""

WAYS: dict[str, dict[str, Any]] = {
    "attention, one head": {"what": "attention", "layers": [1], "heads": [3]},
    "attention, 64 rows of a head": {
        "what": "attention",
        "layers": [1],
        "heads": [3],
        "rows": 64,
    },
    "attention, all heads of a layer": {"what": "attention", "layers": [1]},
    "attention, all heads and layers": {"what": "attention"},
    "attention, all, tiles of 64": {"what": "attention", "size": 64},
    "qkv, all heads and layers": {"what": "qkv"},
    "residual, all layers": {"what": "residual"},
    "mlp, all layers": {"what": "mlp"},
    "logits": {"what": "logits"},
    "gradients, all layers": {"what": "gradients"},
    "weights, all layers": {"what": "weights"},
}


class Block(NamedTuple):
    """Steps one after the other, means."""

    thread_ms: float
    own_ms: float
    taken: float
    """Share of the steps that was captured: the limit of bytes a second leaves some out."""


@dataclass(frozen=True)
class Cost:
    """CPU ms of a step: medians over the rounds, with quartiles."""

    alone_ms: float
    """of the training thread, in steps that are not captured"""
    more_ms: float
    more_quartiles: tuple[float, float]
    own_ms: float
    """of it in the hooks"""
    shown_ms: float
    frames_per_step: float
    bytes_per_value: float


class Training:
    """A GPT trained in one process on one sequence a step."""

    def __init__(self, layers: int, heads: int, seq: int) -> None:
        sizes = GPTSizes(layers, 16 * heads, heads, seq_len=seq)
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


class Watched:
    """A training job with one watch."""

    def __init__(self, training: Training, watch: Mapping[str, Any], folder: str) -> None:
        self.tracer = th.start(folder, model=training.model, allow_content=True)
        most = {"rows": MAX_ROWS, "bytes_per_s": MAX_BYTES_PER_S, "every": EVERY}
        acks = self.tracer.inspect({**most, **watch})
        assert all(ack.ok for ack in acks), acks
        self.source: Any = next(
            source for source in self.tracer.sources if source.name == "inspection"
        )
        self._training = training
        self._number = 0
        drain = next(one for one in threading.enumerate() if one.name == "trace_hooks drain")
        assert drain.ident is not None
        self._drain_clock = time.pthread_getcpuclockid(drain.ident)

    def captured(self) -> Block:
        """A block of captured steps, the drain thread at work on those before."""
        until_s = time.monotonic() + WARM_S
        while time.monotonic() < until_s:
            self._step(True)
        block = self._block(True)
        self._rest()
        return block

    def between(self) -> Block:
        """A block of steps that are not captured."""
        self._step(False)
        return self._block(False)

    def _block(self, is_captured: bool) -> Block:
        begun = self._clocks()
        for _ in range(STEPS):
            self._step(is_captured)
        thread, own, taken = (b - a for a, b in zip(begun, self._clocks(), strict=True))
        return Block(thread / STEPS / 1e6, own / STEPS / 1e6, taken / STEPS)

    def _clocks(self) -> tuple[int, int, int]:
        """ns of this thread, and of the hooks in it as the watch reports it; steps captured."""
        status = next(iter(self.source.status()), {"cost_ns": 0, "steps": 0})  # none before a step
        return time.thread_time_ns(), status["cost_ns"], status["steps"]

    def _step(self, is_captured: bool) -> None:
        self._number += EVERY - self._number % EVERY if is_captured else 1
        with self.tracer.step(self._number):
            self._training.step()

    def _rest(self) -> None:
        worked_ns = AT_REST_NS
        while worked_ns >= AT_REST_NS:
            before_ns = time.clock_gettime_ns(self._drain_clock)
            time.sleep(REST_S)
            worked_ns = time.clock_gettime_ns(self._drain_clock) - before_ns


def measured(training: Training, watch: Mapping[str, Any], rounds: int) -> tuple[Cost, list[float]]:
    """What a watch costs, and the null's differences, ms."""
    with tempfile.TemporaryDirectory() as folder:
        watched = Watched(training, watch, folder)
        captured, alone_ms = [], [watched.between().thread_ms]
        for _ in range(rounds):
            captured.append(watched.captured())
            alone_ms.append(watched.between().thread_ms)
        (status,) = watched.source.status()
        watched.tracer.stop()
        values, num_bytes = _stored(Path(folder))
    around = zip(alone_ms, captured, alone_ms[1:], strict=False)
    more = [(one.thread_ms - (low + high) / 2) / one.taken for low, one, high in around]
    nulls = [
        one - (before + after) / 2
        for before, one, after in zip(alone_ms, alone_ms[1:], alone_ms[2:], strict=False)
    ]
    low, middle, high = statistics.quantiles(more, n=4)
    steps = max(1, status["steps"])
    cost = Cost(
        statistics.median(alone_ms),
        middle,
        (low, high),
        statistics.median(one.own_ms / one.taken for one in captured),
        (status["cost_ns"] + status["drain_ns"]) / steps / 1e6,
        status["frames"] / steps,
        num_bytes / max(1, values),
    )
    return cost, nulls


def _stored(folder: Path) -> tuple[int, int]:
    """(values, bytes) of the frames that were written."""
    values = num_bytes = 0
    for path in folder.glob("*/segments/frames-*.parquet"):
        for row in pq.read_table(path, columns=["data", "dtype"]).to_pylist():
            num_bytes += len(row["data"])
            values += len(row["data"]) // ITEM_BYTES[row["dtype"]]
    return values, num_bytes


def idle_costs(training: Training) -> dict[str, float]:
    """CPU ns of what is called in every step, without a watch and in steps between captures."""
    tensors = torch.randn(3, 1, 1, 4, 4)
    idle = {}
    for name, watches in (
        ("no watch", []),
        ("a watch, between its steps", [{"what": "attention", "every": EVERY}]),
    ):
        with tempfile.TemporaryDirectory() as folder:
            tracer = th.start(folder, model=training.model, allow_content=True)
            tracer.inspect(*watches)
            source: Any = next(one for one in tracer.sources if one.name == "inspection")
            for number in (1, 2):  # the first step takes the watch
                with tracer.step(number):
                    training.step()
            idle[f"{name}: begin and end of a step"] = cpu_ns(
                lambda source=source: (source.step_begin(), source.step_end()), 1_000
            )
            idle[f"{name}: a tiny call of attention"] = cpu_ns(
                lambda: functional.scaled_dot_product_attention(*tensors), 1_000
            )
            tracer.stop()
    return idle


def costs(training: Training, rounds: int) -> tuple[dict[str, Cost], tuple[float, float, float]]:
    """Cost by way, and quartiles of the null, ms."""
    os.environ.setdefault("TRACE_HOOKS_RUN", "benchmark")
    found, nulls = {}, []
    for name, watch in WAYS.items():
        found[name], more = measured(training, watch, rounds)
        nulls += more
    low, middle, high = statistics.quantiles(nulls, n=4)
    return found, (low, middle, high)


def is_covered(cost: Cost, null_quartiles: tuple[float, float, float]) -> bool:
    """Whether the displayed cost covers the measured cost, within the noise."""
    return cost.more_ms - cost.shown_ms <= null_quartiles[2]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    parser.add_argument("--rounds", type=int, default=7, help="of each way, at least 2")
    parser.add_argument("--heads", type=int, default=16)
    parser.add_argument("--seq", type=int, default=256, help="tokens of the sequence")
    parser.add_argument("--layers", type=int, default=2, help="at least 2")
    options = parser.parse_args()
    torch.set_num_threads(1)
    training = Training(options.layers, options.heads, options.seq)
    found, null = costs(training, options.rounds)
    idle = idle_costs(training)
    around = conditions(options.rounds) | {
        "model": f"GPT, {options.layers} layers, {options.heads} heads of 16, {options.seq} "
        "tokens, one sequence a step, one thread"
    }
    if options.json:
        steps = {
            name: asdict(cost) | {"covered": is_covered(cost, null)} for name, cost in found.items()
        }
        print(json.dumps({"conditions": around, "null": null, "steps": steps, "idle": idle}))
        return 0
    for name, value in around.items():
        print(f"{name}: {value}")
    print_table(found, null)
    print("\nin every step, CPU ns")
    for name, value in idle.items():
        print(f"{name:52}{value:10,.0f}")
    print(f"\nMegaScope's JSON has {MEGASCOPE_BYTES} bytes a value")
    return 0


def print_table(costs: dict[str, Cost], null: tuple[float, float, float]) -> None:
    print(f"null: {null[1]:.2f} ms, quartiles {null[0]:.2f} to {null[2]:.2f}")
    print(
        f"\n{'a captured step':32}{'alone ms':>10}{'more ms':>9}{'quartiles':>14}{'in hooks':>10}"
        f"{'shown ms':>10}{'covered':>9}{'frames':>8}{'B/value':>9}"
    )
    for name, cost in costs.items():
        low, high = cost.more_quartiles
        print(
            f"{name:32}{cost.alone_ms:10.1f}{cost.more_ms:9.2f}{f'{low:.2f}-{high:.2f}':>14}"
            f"{cost.own_ms:10.2f}{cost.shown_ms:10.2f}"
            f"{'yes' if is_covered(cost, null) else 'no':>9}{cost.frames_per_step:8.0f}"
            f"{cost.bytes_per_value:9.2f}"
        )


if __name__ == "__main__":
    sys.exit(main())
