"""Cost of the hooks for the ranks of `rankscope demo`, as the hooks report it, by thread and
source.

    python benchmarks/demo_hook_cost.py [--checkout NAME=PATH ...] [--own-files] [--rounds 3]
        [--steps 60]

Runs the demo of this checkout, or of each --checkout in turns, and runs the saved queries
`hook_cost` (all checkouts) and `hook_cost_by_source` (those that have it). Means over the ranks and
the rounds: the share of the time, files of the host, and CPU ms per step. --own-files: each also
without a collector, so that every rank writes files of its own.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from collections import defaultdict
from pathlib import Path
from typing import Any

from browser import REPO, clean_environment, conditions

LEAST_SHARE = 0.01
"""Sources below it are left out."""

DEMO_LIMIT_S = 600.0

Costs = dict[str, float]
"""Figure -> mean over the ranks."""


def demo_costs(checkout: Path, own_files: bool, steps: int) -> Costs:
    """Figures of one demo; raises CalledProcessError where it fails."""
    environ = {"TRACE_HOOKS_COLLECTOR": "0"} if own_files else {}
    with tempfile.TemporaryDirectory() as folder:
        command = ["demo", "--no-browser", "--port", "0", "--runs", folder, "--steps", str(steps)]
        _rankscope(checkout, *command, **environ)
        (run,) = (str(path) for path in Path(folder).iterdir() if path.is_dir())
        whole = _answer(checkout, run, "hook_cost")
        steps_ms = [row["step_ms"] for row in _answer(checkout, run, "steps")]
        try:
            by_source = _answer(checkout, run, "hook_cost_by_source")
        except subprocess.CalledProcessError:  # an older one has no such question
            by_source = []
    by_name = {
        "step, ms": statistics.median(steps_ms),
        "share of the time, %": 100 * statistics.mean(row["cost_ratio"] for row in whole),
        "files a second": statistics.mean(row.get("host_files_per_s") or 0.0 for row in whole),
        "all, ms a step": statistics.mean(row["self_ms_per_step"] for row in whole),
    }
    return by_name | _sources(by_source, len(whole))


def _sources(rows: list[dict[str, Any]], num_ranks: int) -> Costs:
    sums: dict[str, float] = defaultdict(float)
    for row in rows:
        sums[f"{row['thread']}: {row['source']}"] += row["self_ms_per_step"] / num_ranks
    return dict(sums)


def _answer(checkout: Path, run: str, question: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = json.loads(_rankscope(checkout, "query", run, question, "--json"))
    return rows


def _rankscope(checkout: Path, *arguments: str, **environ: str) -> str:
    code = "import sys; from app.cli import main; sys.exit(main())"
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments],
        cwd=checkout,
        timeout=DEMO_LIMIT_S,
        check=True,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        env=clean_environment() | {"PYTHONPATH": str(checkout)} | environ,
    )
    return done.stdout


def main() -> None:
    options = _options()
    ways = {name: (path, False) for name, path in options.checkout.items()}
    if options.own_files:
        of_own = {f"{name}, own": (path, True) for name, path in options.checkout.items()}
        ways = of_own | ways
    by_name: dict[str, list[Costs]] = {name: [] for name in ways}
    for _ in range(options.rounds):
        for name, (checkout, own_files) in ways.items():
            by_name[name].append(demo_costs(checkout, own_files, options.steps))
    facts = conditions(rounds=options.rounds, steps=options.steps)
    del facts["browser"], facts["webgl"]
    print(", ".join(f"{key} {value}" for key, value in facts.items()))
    print(f"\n{'':44}" + "".join(f"{name:>12}" for name in by_name))
    means = {name: _means(rounds) for name, rounds in by_name.items()}
    last = means[list(by_name)[-1]]
    for title in sorted(last, key=lambda title: (":" in title, -last[title] * (":" in title))):
        if ":" in title and last[title] < LEAST_SHARE * last["all, ms a step"]:
            continue
        cells = (means[name].get(title) for name in by_name)
        print(f"{title:44}" + "".join(f"{'-' if c is None else f'{c:.2f}':>12}" for c in cells))


def _means(rounds: list[Costs]) -> Costs:
    titles = {title for costs in rounds for title in costs}
    return {title: statistics.mean(costs.get(title, 0.0) for costs in rounds) for title in titles}


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--checkout", action="append", metavar="NAME=PATH", help="(this checkout)")
    parser.add_argument("--own-files", action="store_true", help="each also without a collector")
    parser.add_argument("--rounds", type=int, default=3, help="demos of each (%(default)s)")
    parser.add_argument("--steps", type=int, default=60, help="of each demo (%(default)s)")
    options = parser.parse_args()
    named = [text.rpartition("=") for text in options.checkout or [f"this={REPO}"]]
    options.checkout = {name: Path(path).resolve() for name, _, path in named}
    return options


if __name__ == "__main__":
    main()
