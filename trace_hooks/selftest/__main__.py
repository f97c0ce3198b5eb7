"""`torchrun --nproc-per-node 8 ... -m trace_hooks.selftest [options]`; alone it measures devices.

Exit code 0: measured; 1: stopped because a rank did not answer or could not connect; 2: refused.
What is slow is named by `rankscope selftest RUN`.
"""

from __future__ import annotations

import os
import sys
from datetime import timedelta
from typing import Any

from trace_hooks.selftest.arguments import read_options
from trace_hooks.selftest.rank import EXIT_OK, START_S, Rank


def joined() -> tuple[Any, int, int]:
    """The job's store, this rank, and how many there are; without a launcher one rank alone."""
    from torch import distributed as dist

    if "RANK" not in os.environ:
        return dist.HashStore(), 0, 1
    store, rank, num_ranks = next(dist.rendezvous("env://", timeout=timedelta(seconds=START_S)))
    return store, rank, num_ranks


def main(argv: list[str]) -> int:
    """Measure; returns the exit code."""
    options = read_options(argv)
    store, rank, num_ranks = joined()
    return Rank(options, store, rank, num_ranks).run()


if __name__ == "__main__":
    code = main(sys.argv[1:])
    if code != EXIT_OK:  # a transfer that hangs would keep the process from leaving
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
