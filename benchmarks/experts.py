"""Findings on experts: how soon faults of made routers are named, and whether healthy ones are.

    python benchmarks/experts.py [--seed 1] [--each 2] [--job]

Each of 4 sizes and 2 numbers of tokens a step has --each healthy routers of every kind and --each
of every fault, in the last layer from a random step on. Then cases of ping-pong are simulated.
--job also trains with two micro-batches that take turns, and compares the time of a pass. Exits
with 1 where a fault was not named in time, a healthy router was, or times differ (real ones: 5 %).
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
from bisect import bisect_left
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pyarrow as pa

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from benchmarks.made_routers import EP, HEALTHY, Router, tables_of, until  # noqa: E402
from diagnosis.detectors import dead_expert, expert_imbalance, hot_expert, router_collapse  # noqa: E402
from diagnosis.experts.measured import passes_of  # noqa: E402
from diagnosis.experts.ping_pong import PingPong  # noqa: E402
from diagnosis.findings import Finding  # noqa: E402
from ingest.run import open_run  # noqa: E402
from tests.diagnosis.experts.ping_pong_simulation import simulated  # noqa: E402

SIZES = ((8, 2), (16, 1), (64, 6), (256, 8))
TOKENS = (4_096, 32_768)
DETECTORS = (hot_expert, dead_expert, router_collapse, expert_imbalance)
KIND_OF = {"hot": "hot_expert", "dead": "dead_expert", "collapsed": "router_collapse",
           "full": "expert_imbalance"}  # fmt: skip
SOONEST = {"hot": 20, "dead": 100, "collapsed": 20, "full": 20}
"""Steps within which a fault has to be named."""
NUM_STEPS = 140
JOB = ("--nproc", "4", "--pp", "1", "--dp", "2", "--ep", "2", "--layers", "4", "--groups", "2",
       "--microbatches", "1", "--wait-ms", "200", "300", "--width", "32", "--seq", "32",
       "--steps", "7")  # fmt: skip
PASSES = """
    SELECT (max(ts_ns + dur_ns) - min(ts_ns)) / 1e6 AS ms FROM spans
    WHERE kind = 'forward' AND step > 1 AND regexp_matches(name, 'attention$|experts$')
    GROUP BY rank, step
"""
"""From the first attention to the last experts."""
PING_PONG = ((1, 1, 0.4, 3), (1, 1, 0.4, 2), (1, 1, 0.8, 4), (1, 1, 0.8, 3), (1, 0.7, 0.4, 3),
             (1, 0.7, 0.4, 2), (0.6, 1, 0.1, 2))  # fmt: skip


def found(tables: Mapping[str, pa.Table]) -> list[Finding]:
    """What all detectors of experts find."""
    verdicts = (detector.detect(tables, 0) for detector in DETECTORS)
    return [finding for verdict in verdicts if verdict for finding in verdict.findings]


def planted(kind: str, size: tuple[int, int], tokens: int, chance: np.random.Generator) -> Router:
    """A router with this fault, as strong and late as chance has it."""
    experts, top_k = size
    few = max(2, 5 * top_k // 4)
    onset = int(chance.integers(25, NUM_STEPS - SOONEST[kind] - 5))
    most = min(experts / top_k, 8) * 0.95
    times = chance.uniform(2.6, max(most, 3.0)) if kind == "hot" else chance.uniform(1.35, 1.8)
    expert = int(chance.integers(experts - few))
    return Router(kind, experts, top_k, tokens, NUM_STEPS, 2, onset, expert, float(times), few)


def named_after(router: Router, tables: Mapping[str, pa.Table]) -> int | None:
    """Steps after its onset when it is named, and nothing else; None not named."""
    nums = range(1, router.num_steps - router.onset + 1)
    at = bisect_left(nums, True, key=lambda num: bool(found(until(tables, router.onset + num))))
    findings = found(until(tables, router.onset + nums[at])) if at < len(nums) else []
    is_right = [finding.kind for finding in findings] == [KIND_OF[router.kind]]
    return nums[at] if is_right and _names(findings[0], router) else None


def _names(finding: Finding, router: Router) -> bool:
    layer = router.layers - 1
    if router.kind == "full":
        return [place.rank for place in finding.culprits] == [router.expert * EP // router.experts]
    if router.kind == "collapsed":
        return f"layer {layer}" in finding.title
    return f"Expert {router.expert} of layer {layer} " in finding.title


def main() -> int:
    """Print the tables; 1 where anything is wrong."""
    parser = argparse.ArgumentParser(description=str(__doc__).split("\n", 1)[0])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--each", type=int, default=2, help="routers of each kind and size")
    parser.add_argument("--job", action="store_true", help="also compare a real pass")
    options = parser.parse_args()
    results = [_print_routers(options.seed, options.each)] if options.each else []
    results += [_print_ping_pong()]
    results += [_print_job()] if options.job else []
    return int(not all(results))


def _print_routers(seed: int, each: int) -> bool:
    chance = np.random.default_rng(seed)
    wrong = 0
    print("| experts | top k | tokens | " + " | ".join([*KIND_OF, *HEALTHY]) + " |")
    print("|" + "---|" * (3 + len(KIND_OF) + len(HEALTHY)))
    for size in SIZES:
        for tokens in TOKENS:
            cells = []
            for kind in KIND_OF:
                after = []
                for _ in range(each):
                    router = planted(kind, size, tokens, chance)
                    tables = tables_of(router, int(chance.integers(1 << 31)))
                    after.append(named_after(router, tables))
                missed = [num for num in after if num is None or num > SOONEST[kind]]
                wrong += len(missed)
                cells.append(", ".join("missed" if num is None else str(num) for num in after))
            for kind in HEALTHY:
                false = 0
                for _ in range(each):
                    router = Router(kind, *size, tokens, NUM_STEPS, onset=NUM_STEPS)
                    false += len(found(tables_of(router, int(chance.integers(1 << 31)))))
                wrong += false
                cells.append("silent" if not false else f"{false} false")
            print(f"| {size[0]} | {size[1]} | {tokens:,} | {' | '.join(cells)} |", flush=True)
    print(f"\nFaults: steps after the onset when they are named. Wrong: {wrong}.\n")
    return wrong == 0


def _print_ping_pong() -> bool:
    print("| Ta | Te | Tc | m | T, 32 layers | simulated | attention idles | experts idle |")
    print("|" + "---|" * 8)
    worst = 0.0
    for attention, experts, transfer, micro_batches in PING_PONG:
        case = (float(attention), float(experts), float(transfer), micro_batches, 32)
        times, (end, _, _) = PingPong(*case), simulated(*case)
        worst = max(worst, abs(times.total - end))
        print(
            f"| {attention} | {experts} | {transfer} | {micro_batches} | {times.total:.1f} | "
            f"{end:.1f} | {times.attention_idle:.1%} | {times.experts_idle:.1%} |"
        )
    print(f"\nGreatest difference: {worst:.1e}.")
    return worst < 1e-6


def _print_job() -> bool:
    """Halves of micro-batches in turn on four ranks, whose parts wait as for a device."""
    with tempfile.TemporaryDirectory() as folder:
        given = [*JOB, "--runs", folder]
        subprocess.run(
            [sys.executable, "-m", "sample_traces.jobs.train_moe", *given],
            cwd=ROOT, check=True, stdout=subprocess.DEVNULL,
        )  # fmt: skip
        (run_folder,) = (path for path in Path(folder).iterdir() if (path / "run.json").exists())
        with open_run(run_folder) as run:
            (measured,) = passes_of(run.ask("expert_times"))
            passes = run.sql(PASSES).column("ms").to_pylist()
    took, predicted = statistics.median(passes), measured.times.total
    print(
        f"A real pass, {measured.times.micro_batches} micro-batches: {took:.0f} ms; predicted "
        f"{predicted:.0f} ms ({predicted / took - 1:+.1%}), from {measured.times.attention:.1f} ms "
        f"of attention, {measured.times.experts:.1f} ms of experts, {measured.times.transfer:.1f} "
        "ms of a transfer."
    )
    return bool(abs(predicted / took - 1) <= 0.05)


if __name__ == "__main__":
    sys.exit(main())
