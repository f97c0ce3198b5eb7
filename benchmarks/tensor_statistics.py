"""Cost of tensor statistics for a training step: in steps that record them, and in those between.

    python benchmarks/tensor_statistics.py [--json] [--rounds 10]

CPU time of the training thread, not wall time (docs/benchmarks.md explains why). The ways of
training take turns, in a different order each round; a way's ratio compares its steps with those of
`hooks alone` in the same round. `hooks alone, again` is the null: its distance from 1 is the
resolution of the measurement.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import tempfile
import time
from dataclasses import asdict, dataclass

os.environ.setdefault("OMP_NUM_THREADS", "1")

from hook_overhead import conditions, parsed_options
from step_overhead import Training
from timing import in_turns

import trace_hooks as th

STEPS = 6
NEVER = 1_000_000
"""Steps between two with statistics that no turn reaches: what it costs to be ready."""

WAYS = {
    "hooks alone": 0,
    "hooks alone, again (null)": 0,
    "statistics, steps between": NEVER,
    "statistics, in every step": 1,
}
"""Name: statistics every this many steps."""


@dataclass(frozen=True)
class Cost:
    """CPU ms of a step on the training thread: medians over the rounds, with quartiles."""

    thread_ms: float
    ratio: float
    ratio_quartiles: tuple[float, float]
    more_ms: float
    """than a step of `hooks alone` in the same round"""


def turn(training: Training, every: int) -> float:
    """The median step of one turn, CPU ms of this thread; two steps before it warm up."""
    with tempfile.TemporaryDirectory() as folder:
        tracer = th.start(folder, model=training.model, statistics=every)
        times_ms = []
        for number in range(1, STEPS + 3):  # not from 0, which every interval records
            begun = time.thread_time_ns()
            with tracer.step(number):
                tracer.log(loss=training.step())
            times_ms.append((time.thread_time_ns() - begun) / 1e6)
        tracer.stop()
    return statistics.median(times_ms[2:])


def costs(rounds: int) -> dict[str, Cost]:
    """Cost by way; each round runs every way once, in another order."""
    os.environ.setdefault("TRACE_HOOKS_RUN", "benchmark")
    training = Training()
    turns = in_turns(WAYS, rounds, lambda name: turn(training, WAYS[name]))
    alone = turns["hooks alone"]
    return {name: _cost(own, alone) for name, own in turns.items()}


def _cost(own: list[float], alone: list[float]) -> Cost:
    ratios = [one / other for one, other in zip(own, alone, strict=True)]
    low, middle, high = statistics.quantiles(ratios, n=4)
    more = statistics.median(one - other for one, other in zip(own, alone, strict=True))
    return Cost(statistics.median(own), middle, (low, high), more)


def main() -> int:
    options = parsed_options(__doc__)
    found = costs(options.rounds)
    around = conditions(options.rounds)
    if options.json:
        plain = {name: asdict(cost) for name, cost in found.items()}
        print(json.dumps({"conditions": around, "steps": plain}, indent=1))
        return 0
    for name, value in around.items():
        print(f"{name}: {value}")
    print(f"\n{'a training step':32}{'thread ms':>10}{'ratio':>8}{'quartiles':>16}{'more ms':>9}")
    for name, cost in found.items():
        low, high = cost.ratio_quartiles
        quartiles = f"{low:.3f}-{high:.3f}"
        print(f"{name:32}{cost.thread_ms:10.1f}{cost.ratio:8.3f}{quartiles:>16}{cost.more_ms:9.2f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
