"""Test devices and links before a job starts: print the command to run, or read what it measured.

Without RUN: the commands for the hosts of the job. With RUN, the folder that the self-test wrote:
what was measured, and which host, device or link is slow. Exit code 0: none; 3: findings; 4: too
little was measured to compare.
"""

from __future__ import annotations

import argparse
import json
import math
import shlex
from dataclasses import asdict
from pathlib import Path

from app.analysis.imports import open_any
from app.analysis.selftest import selftest_diagnosis
from app.commands.diagnose import as_lines, exit_code
from app.commands.run_argument import open_run
from app.views.selftest import Selftest, selftest_of, table_lines
from diagnosis.findings import Diagnosis
from ingest.errors import UserError, printable

PORT = 29400


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of `rankscope selftest`."""
    add = parser.add_argument
    add("path", type=Path, nargs="?", metavar="RUN", help="run folder of a self-test")
    what = "an earlier self-test of the same machines, to find what has become slower"
    add("--baseline", type=Path, metavar="RUN", help=what)
    add("--hosts", type=int, default=1, metavar="N", help="hosts of the job (default 1)")
    what = "ranks on each host, one per GPU (default 8)"
    add("--ranks-per-host", type=int, default=8, metavar="N", help=what)
    add("--budget-s", type=float, default=60.0, metavar="S", help="measure this long (default 60)")
    add("--folder", default="runs", help="folder of runs, on rank 0's host (default runs)")
    add("--json", action="store_true", help="print one JSON object, for machines")


def run(arguments: argparse.Namespace) -> int:
    """Print the command, or the result."""
    if arguments.path is None:
        return _print_commands(arguments)
    with open_run(arguments.path) as opened:
        attempt = opened.newest_attempt
        measured = selftest_of(opened, attempt)
        if not measured.tests and not measured.notes:
            raise UserError(f"{arguments.path} holds no self-test; `rankscope selftest` runs one")
        if arguments.baseline is None:
            diagnosis = selftest_diagnosis(opened, attempt)
        else:
            with open_any(arguments.baseline) as good:
                diagnosis = selftest_diagnosis(opened, attempt, good)
    _print_result(measured, diagnosis, arguments.json)
    return exit_code(diagnosis)


def _print_result(measured: Selftest, diagnosis: Diagnosis, is_json: bool) -> None:
    if is_json:
        print(json.dumps({**asdict(measured), **diagnosis.to_json()}))
        return
    lines = [*table_lines(measured), "", *measured.notes, *as_lines(diagnosis)]
    print("\n".join(map(printable, lines)))


def _print_commands(arguments: argparse.Namespace) -> int:
    if arguments.baseline is not None:
        raise UserError("--baseline needs RUN, the self-test to compare with it")
    if arguments.hosts < 1 or arguments.ranks_per_host < 1 or not arguments.budget_s >= 1:
        raise UserError("give --hosts, --ranks-per-host and --budget-s of at least 1")
    if not math.isfinite(arguments.budget_s):
        raise UserError("a self-test has to end; give --budget-s in seconds, such as 60")
    command = selftest_command(
        arguments.hosts, arguments.ranks_per_host, arguments.budget_s, arguments.folder
    )
    if arguments.json:
        print(json.dumps({"command": command, "hosts": arguments.hosts}))
        return 0
    where = "Run"
    if arguments.hosts > 1:
        where = f"Run on each of the {arguments.hosts} hosts (HEAD is the name of one of them)"
    print(f"{where}, with the environment of the job:\n\n  {command}\n")
    if arguments.hosts > 1:
        nodes = f"--nodes {arguments.hosts} --ntasks-per-node 1"
        print(f"With Slurm:\n\n  srun {nodes} {command}\n")
    print(f"Then: rankscope selftest {shlex.quote(arguments.folder)}/selftest-...")
    return 0


def selftest_command(hosts: int, per_host: int, budget_s: float, folder: str) -> str:
    """What to run on each host; the hooks have to be installed there."""
    meet = (
        f"--nnodes {hosts} --rdzv-backend c10d --rdzv-endpoint HEAD:{PORT}"
        if hosts > 1
        else "--standalone"
    )
    return (
        f"torchrun {meet} --nproc-per-node {per_host} -m trace_hooks.selftest"
        f" --folder {shlex.quote(folder)} --budget-s {budget_s:.15g}"
    )
