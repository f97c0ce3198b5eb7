"""Kernels planted slow on one rank of resampled profiles: found, and nobody named on healthy ones.

python -m benchmarks.slow_kernels [FILE ...] [--trials 200] [--write docs/mfu.md]

The files, torch.profiler's with shapes, are those next to the repository unless others are named. A
trial draws the calls of every kernel of a file again, with replacement, for each of 8 ranks whose
devices are as unlike as healthy ones: factors with a spread (standard deviation) of 3 %, so that
the fastest and the slowest of 8 differ by some 8 %, and of another 1 % for each kernel. Then one
kernel of one rank, or all of them, take longer by a factor.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from app.commands.run_argument import open_run
from benchmarks.accuracy.intervals import clopper_pearson
from benchmarks.page_part import write_part
from diagnosis.roofline.peers import FEWEST_CALLS, Comparison, slow_kernels
from diagnosis.roofline.roofs import Roofs

BEGIN = "<!-- benchmarks.slow_kernels replaces what follows -->"
END = "<!-- end of slow kernels -->"
FOLDER = Path(__file__).resolve().parents[2] / "shared" / "traces" / "kineto" / "tracelens"
FILES = (
    "h100__qwen1.5-0.5b.json.gz",
    "mi300__qwen1.5-0.5b.json.gz",
    "mi300__resnet_act_checkpoint.json.gz",
)
RANKS = 8
DEVICES, KERNELS = 0.03, 0.01
"""Spread of the speed of healthy devices, and of single kernels on them."""
SEED = 24_300


class Planted(NamedTuple):
    """What is slow on one rank, and by which factor."""

    title: str
    factor: float
    whole_device: bool = False


PLANTED = (
    Planted("nothing", 1.0),
    Planted("one kernel, 10 % longer", 1.1),
    Planted("one kernel, 20 % longer", 1.2),
    Planted("one kernel, 30 % longer", 1.3),
    Planted("one kernel, 50 % longer", 1.5),
    Planted("all kernels, 20 % longer", 1.2, whole_device=True),
    Planted("all kernels, 30 % longer", 1.3, whole_device=True),
)


class Kernel(NamedTuple):
    """One kernel of a recording and the times of its calls, us."""

    operation: str
    name: str
    call_us: npt.NDArray[np.float64]


class Outcome(NamedTuple):
    """Of one trial. `right`: the slow rank alone is named, for its kernel, or for its device."""

    right: bool
    wrong: bool


def recorded(path: Path) -> list[Kernel]:
    """Kernels of a file that have shapes and enough calls."""
    text = (
        "SELECT args, name, list(dur_ns / 1e3) AS us FROM spans"
        " WHERE kind = 'kernel' AND args IS NOT NULL GROUP BY args, name ORDER BY args, name"
    )
    with open_run(path) as run:
        rows = run.sql(text).to_pylist()
    kernels = [Kernel(row["args"], row["name"], np.array(row["us"])) for row in rows]
    return [kernel for kernel in kernels if kernel.call_us.size >= FEWEST_CALLS]


def trial(kernels: Sequence[Kernel], planted: Planted, random: np.random.Generator) -> Outcome:
    """One job of resampled kernels, and who is named in it."""
    rank, at = int(random.integers(RANKS)), int(random.integers(len(kernels)))
    device_R = np.exp(DEVICES * random.standard_normal(RANKS))
    rows = []
    for number, kernel in enumerate(kernels):
        for own in range(RANKS):
            slow = own == rank and (planted.whole_device or number == at)
            factor = device_R[own] * np.exp(KERNELS * random.standard_normal())
            factor *= planted.factor if slow else 1.0
            us = factor * random.choice(kernel.call_us, kernel.call_us.size)
            rows.append(_row(own, number, kernel, us))
    found = slow_kernels(rows, dict.fromkeys(range(RANKS), Roofs("", {}, None)))
    return _outcome(found, planted, rank, str(at))


def _row(rank: int, number: int, kernel: Kernel, us: npt.NDArray[np.float64]) -> dict[str, Any]:
    low, middle, high = np.quantile(us, [0.1, 0.5, 0.9])
    return {
        "rank": rank,
        "operation": kernel.operation,
        "part": 0,
        "name": str(number),
        "calls": us.size,
        "alone_calls": us.size,
        "total_ms": us.sum() / 1e3,
        "median_us": middle,
        "low_us": low,
        "high_us": high,
        "num_steps": 1,
    }


def _outcome(found: Comparison, planted: Planted, rank: int, name: str) -> Outcome:
    named = {(one.rank, kernel.kernel) for one in found.ranks for kernel in one.kernels}
    if planted.factor == 1:
        return Outcome(not named, bool(named))
    if planted.whole_device:
        is_found = any(one.rank == rank and one.is_device for one in found.ranks)
        return Outcome(is_found, any(own != rank for own, _ in named))
    return Outcome((rank, name) in named, bool(named - {(rank, name)}))


def report(files: Sequence[Path], trials: int) -> str:
    """The table, in Markdown."""
    lines = [
        "| planted on one of 8 ranks | named rightly | something else is named (95 % interval) |",
        "|---|---|---|",
    ]
    jobs = [recorded(path) for path in files]
    for number, planted in enumerate(PLANTED):
        random = np.random.default_rng(SEED + number)
        outcomes = [trial(kernels, planted, random) for kernels in jobs for _ in range(trials)]
        right, wrong = (sum(values) for values in zip(*outcomes, strict=True))
        low, high = clopper_pearson(wrong, len(outcomes))
        named = "" if planted.factor == 1 else f"{right} of {len(outcomes)}"
        share = f"{100 * low:.1f} % to {100 * high:.1f} %"
        lines.append(f"| {planted.title} | {named} | {wrong} of {len(outcomes)} ({share}) |")
    sizes = ", ".join(
        f"{path.name} ({len(kernels)})" for path, kernels in zip(files, jobs, strict=True)
    )
    return "\n".join([*lines, "", f"Recordings, and how many kernels they have: {sizes}.", ""])


def main() -> int:
    """Print the table, or put it into a page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("files", nargs="*", type=Path)
    parser.add_argument("--trials", type=int, default=200, help="of each recording and dose")
    parser.add_argument("--write", type=Path, metavar="PAGE")
    arguments = parser.parse_args()
    files = arguments.files or [FOLDER / name for name in FILES]
    text = report(files, arguments.trials)
    if arguments.write:
        write_part(arguments.write, BEGIN, END, text)
    else:
        print(text)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
