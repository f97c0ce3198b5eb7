"""What the user chose on the command line of `python -m trace_hooks.selftest`."""

from __future__ import annotations

import argparse
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from trace_hooks.selftest.plan import MIB

LEAST_BUDGET_S = 1.0


@dataclass(frozen=True)
class Options:
    """Those of rank 0 hold for all, except folder, host and `anyway`, which concern each host."""

    folder: Path
    name: str | None
    host: str | None
    device: str
    budget_s: float
    timeout_s: float
    samples: int
    message_bytes: int | None
    anyway: bool


def read_options(argv: Sequence[str]) -> Options:
    """Options of a command line; argparse ends the process where it is invalid."""
    parser = argparse.ArgumentParser(
        prog="python -m trace_hooks.selftest",
        description="Measure devices, links and groups of the ranks that torchrun has started.",
        epilog="docs/selftest.md explains what is measured and how to read it.",
    )
    add = parser.add_argument
    add("--folder", help="folder of runs (default: TRACE_HOOKS_FOLDER, else runs)")
    what = "name of the run folder (default: selftest- and the time)"
    add("--name", help=what)  # torchrun takes --run for one of its own options
    what = "name of this host, where several share one (default: its own)"
    add("--host", help=what)
    add("--device", choices=("auto", "cuda", "cpu"), default="auto")
    what = "measure at most this long, s; what does not fit is left out and named (default 60)"
    add("--budget-s", type=float, default=60.0, help=what)
    what = "a rank that does not come to an end of its part for this long is named, s (default 30)"
    add("--timeout-s", type=float, default=30.0, help=what)
    add("--samples", type=int, default=20, help="timed repetitions of each (default 20)")
    add("--message-mib", type=float, help="largest message, MiB (default: 256 on GPUs, 8 on CPUs)")
    what = "measure although a job trains on these devices: both will be slower"
    add("--anyway", action="store_true", help=what)
    chosen = parser.parse_args(argv)
    if not (chosen.budget_s >= LEAST_BUDGET_S and chosen.timeout_s >= 1 and chosen.samples >= 3):
        parser.error("give --budget-s and --timeout-s of at least 1, and --samples of at least 3")
    if chosen.message_mib is not None and not 1 / 1024 <= chosen.message_mib <= 65536:
        parser.error("--message-mib lies between 0.001 and 65536")
    if chosen.name is not None and not re.fullmatch(r"[A-Za-z0-9][\w.+=@-]{0,119}", chosen.name):
        parser.error(f"--name is {chosen.name[:40]!r}, which cannot name a folder")
    message = None if chosen.message_mib is None else int(chosen.message_mib * MIB)
    return Options(
        folder=Path(chosen.folder or os.environ.get("TRACE_HOOKS_FOLDER") or "runs").absolute(),
        name=chosen.name,
        host=chosen.host,
        device=chosen.device,
        budget_s=chosen.budget_s,
        timeout_s=chosen.timeout_s,
        samples=chosen.samples,
        message_bytes=message,
        anyway=chosen.anyway,
    )
