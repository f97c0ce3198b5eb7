"""Statements made by a grammar against free SQL: `python -m tests.hostile.sql --n 20000`.

After each statement canaries are checked: files, tables, settings, secrets. Exit code 1 where a
statement wrote, read what is not the run's or passed a limit, or where an honest one was refused;
with a single layer on, reads and limits are only reported.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tests.hostile.free_sql.sql_target import LAYERS
from tests.hostile.sql.campaign import Campaign, Report

_COLUMNS = ("rows", "refused", "stopped", "crashed", "lost", "write", "read", "limit")


def lines(report: Report, seed: int, layers: str) -> Iterator[str]:
    """The report for people."""
    on = layers
    yield f"seed {seed}, layers: {on}; {report.seconds:.0f} s"
    yield "| stratum | statements | " + " | ".join(_COLUMNS) + " |"
    yield "|---" * (len(_COLUMNS) + 2) + "|"
    for name, counts in sorted(report.outcomes.items()):
        total = sum(counts[kind] for kind in _COLUMNS[:5])
        cells = " | ".join(f"{counts[kind]}" for kind in _COLUMNS)
        yield f"| {name} | {total} | {cells} |"
    yield from (f"no sentence: {message} <- {text!r}" for message, text in report.crashes.items())
    yield from (f"HONEST {why} <- {text!r}" for text, why in report.refused.items())
    yield report.summary


def _main() -> int:
    parser = argparse.ArgumentParser(prog="tests.hostile.sql", description=__doc__)
    parser.add_argument("--n", type=int, default=20_000, help="statements")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6))
    parser.add_argument("--layers", choices=("all", *LAYERS), default="all")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--most", type=int, default=10**9, help="stop after this many violations")
    given = parser.parse_args()
    layers = frozenset(LAYERS if given.layers == "all" else [given.layers])
    folder = Path(tempfile.mkdtemp(prefix="rankscope-sql-"))
    print(f"seed {given.seed}", flush=True)
    campaign = Campaign(
        folder,
        given.seed,
        layers,
        with_limits="kernel" in layers,
        most=given.most,
        show=lambda line: print(line, flush=True),
    )
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        campaign.run(given.n, given.workers)
    except KeyboardInterrupt:
        print("stopped; what was found until then:")
        return 130
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        print("\n".join(lines(campaign.report, given.seed, given.layers)), flush=True)
    violations = campaign.report.violations
    counted = violations.total() if given.layers == "all" else violations["write"]
    return 1 if counted or campaign.report.refused else 0


if __name__ == "__main__":
    sys.exit(_main())
