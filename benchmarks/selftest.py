"""Real self-tests over gloo: a slow pair of ranks is named, and healthy ones name nobody.

python benchmarks/selftest.py [--healthy 20] [--slow 10] [--ranks 8] [--delay-ms 2] [--budget-s 12]

Each round is a `torchrun -m trace_hooks.selftest` of its own on this machine. In slow rounds the
connection of two ranks, another pair each time, waits `--delay-ms` before each send: slow_pair.c,
loaded with LD_PRELOAD. `named`: from the start of torchrun until the finding is known, s; right
where the one finding is the link of that pair.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from app.analysis.selftest import selftest_diagnosis
from diagnosis.findings import Finding
from ingest.run import open_run

HERE = Path(__file__).resolve().parents[1]
LIMIT_S = 60.0
"""Within which a slow pair has to be named."""
_LONGEST_S = 300.0


@dataclass(frozen=True)
class Round:
    """One self-test. `pair`: what was slowed down; None healthy."""

    pair: tuple[int, int] | None
    findings: tuple[Finding, ...]
    took_s: float

    @property
    def is_right(self) -> bool:
        """Whether exactly the slow pair is named, or nobody."""
        named = [tuple(place.rank for place in one.culprits) for one in self.findings]
        return named == ([] if self.pair is None else [self.pair])


def built_library(folder: Path) -> Path:
    """slow_pair.c as a library."""
    library = folder / "slow_pair.so"
    source = HERE / "benchmarks/slow_pair.c"
    command = ["gcc", "-shared", "-fPIC", "-O2", "-o", str(library), str(source), "-ldl"]
    subprocess.run(command, check=True)
    return library


def run_round(options: argparse.Namespace, library: Path, pair: tuple[int, int] | None) -> Round:
    """Run one self-test and read it."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        environ = os.environ | {"OMP_NUM_THREADS": "1"}
        if pair is not None:
            (folder / "ports").mkdir()
            environ |= {
                "LD_PRELOAD": str(library),
                "SLOW_PAIR_FOLDER": str(folder / "ports"),
                "SLOW_PAIR": f"{pair[0]},{pair[1]}",
                "SLOW_PAIR_US": str(round(1000 * options.delay_ms)),
            }
        command = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
        command += ["--nproc-per-node", str(options.ranks), "-m", "trace_hooks.selftest"]
        command += ["--folder", str(folder / "runs"), "--name", "selftest", "--anyway"]
        command += ["--budget-s", str(options.budget_s)]
        begun = time.monotonic()
        subprocess.run(
            command, env=environ, cwd=HERE, check=True, timeout=_LONGEST_S, capture_output=True
        )
        with open_run(folder / "runs/selftest") as run:
            findings = selftest_diagnosis(run, 0).findings
        done = Round(pair, findings, time.monotonic() - begun)
        if options.keep is not None and not done.is_right:
            shutil.copytree(folder / "runs/selftest", options.keep / f"wrong-{time.time():.0f}")
        return done


def show(number: int, done: Round) -> None:
    """One line."""
    named = "; ".join(f"{one.title} ({one.slowdown} x)" for one in done.findings) or "nobody"
    what = "healthy" if done.pair is None else f"slow pair {done.pair[0]}-{done.pair[1]}"
    right = "right" if done.is_right else "WRONG"
    print(f"{number:3} {what:<14} {done.took_s:5.1f} s  {right}: {named}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--healthy", type=int, default=20)
    parser.add_argument("--slow", type=int, default=10)
    parser.add_argument("--ranks", type=int, default=8)
    parser.add_argument("--delay-ms", type=float, default=2.0)
    parser.add_argument("--budget-s", type=float, default=12.0)
    parser.add_argument("--keep", type=Path, help="folder for the runs of wrong rounds")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    draw = random.Random(options.seed)
    pairs = [tuple(sorted(draw.sample(range(options.ranks), 2))) for _ in range(options.slow)]
    rounds: list[tuple[int, int] | None] = [None] * options.healthy
    rounds += [(pair[0], pair[1]) for pair in pairs]
    draw.shuffle(rounds)
    done = []
    with tempfile.TemporaryDirectory() as folder:
        library = built_library(Path(folder))
        for number, pair in enumerate(rounds):
            done.append(run_round(options, library, pair))
            show(number, done[-1])
    report(done)


def report(done: list[Round]) -> None:
    """The numbers."""
    healthy = [one for one in done if one.pair is None]
    slow = [one for one in done if one.pair is not None]
    false = sum(len(one.findings) for one in healthy)
    print(f"healthy: {len(healthy)} runs, {false} false names")
    if slow:
        right = [one for one in slow if one.is_right and one.took_s <= LIMIT_S]
        middle = statistics.median(one.took_s for one in slow)
        longest = max(one.took_s for one in slow)
        print(
            f"slow pair: {len(right)} of {len(slow)} named within {LIMIT_S:.0f} s; from the start "
            f"of torchrun {middle:.1f} s in the median, {longest:.1f} s at most"
        )


if __name__ == "__main__":
    main()
