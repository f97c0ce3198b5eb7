"""Cost of the hooks: a training step under each level, and one event of each source.

    python benchmarks/hook_overhead.py [--json] [--rounds 10] [--only layers]

CPU time, not wall time: on a shared machine ratios of wall time have no meaning. Every way is
compared with steps without hooks right before and after it, including "off": its distance from 1.00
is the resolution of the measurement. On a CUDA device: `python -m benchmarks.gpu`.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
from dataclasses import asdict

os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch
from event_costs import event_costs
from step_overhead import BATCH, MICROBATCHES, SIZES, Cost, step_costs

from trace_hooks.log_text.line_rows import PER_S


def main() -> int:
    options = parsed_options(__doc__, has_ways=True)
    steps = step_costs(options.rounds, options.only)
    if options.only:
        print_steps(options.rounds, steps)
        return 0
    events = event_costs()
    if options.json:
        by_name = {
            "conditions": conditions(options.rounds),
            "steps": {name: asdict(cost) for name, cost in steps.items()},
            "events": events,
            "evidence": evidence_costs(events),
        }
        print(json.dumps(by_name, indent=1))
    else:
        print_tables(options.rounds, steps, events)
    return 0


def parsed_options(doc: str | None, has_ways: bool = False) -> argparse.Namespace:
    """Options of a benchmark of training steps, which then uses one thread."""
    parser = argparse.ArgumentParser(description=doc)
    parser.add_argument("--json", action="store_true", help="print JSON instead of tables")
    parser.add_argument("--rounds", type=int, default=10, help="turns of each way")
    if has_ways:
        what = "steps of the ways with this in their names, and no events"
        parser.add_argument("--only", metavar="TEXT", default="", help=what)
    options = parser.parse_args()
    torch.set_num_threads(1)
    return options


def conditions(rounds: int) -> dict[str, object]:
    return {
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "model": f"GPT, {SIZES.num_layers} layers of width {SIZES.width}, {MICROBATCHES} "
        f"micro-batches of {BATCH} x {SIZES.seq_len} tokens, one thread",
        "rounds": rounds,
    }


COLLECTIVES, LINES, STEP_MS = 100, 10, 100.0
"""What a busy rank enters and prints in one step, and how long that step takes."""


def evidence_costs(events: dict[str, float]) -> dict[str, float]:
    """What a rank spends on evidence of what it was doing when it hangs: on the ring of what it has
    entered, which is written outside of steps, too, and on the lines that it prints. No more than
    PER_S lines a second are kept.
    """
    ring_ns = COLLECTIVES * events["ring write + end, ns"]
    line_ns = LINES * events["printed line, ns"]
    lines_per_hour = min(LINES * 1e3 / STEP_MS, PER_S) * 3_600
    return {
        "ring, % of the step": ring_ns / STEP_MS / 1e4,
        "printed lines, % of the step": line_ns / STEP_MS / 1e4,
        "kept lines, MB per rank and hour": lines_per_hour
        * events["drain: one printed line, bytes"]
        / 1e6,
    }


def print_steps(rounds: int, steps: dict[str, Cost]) -> None:
    for name, value in conditions(rounds).items():
        print(f"{name}: {value}")
    print(
        f"\n{'a training step':34}{'thread ms':>10}{'ratio':>8}{'quartiles':>16}"
        f"{'process':>9}{'self-reported ms':>18}"
    )
    for name, cost in steps.items():
        low, high = cost.thread_ratio_quartiles
        print(
            f"{name:34}{cost.thread_ms:10.1f}{cost.thread_ratio:8.3f}"
            f"{f'{low:.3f}-{high:.3f}':>16}{cost.process_ratio:9.3f}"
            f"{cost.own_account_ms:18.2f}"
        )


def print_tables(rounds: int, steps: dict[str, Cost], events: dict[str, float]) -> None:
    print_steps(rounds, steps)
    print("\none event")
    for name, value in events.items():
        print(f"{name:42}{value:12,.1f}")
    print(f"\n{COLLECTIVES} collectives and {LINES} printed lines in a step of {STEP_MS:.0f} ms")
    for name, value in evidence_costs(events).items():
        print(f"{name:42}{value:12,.4f}")


if __name__ == "__main__":
    sys.exit(main())
