"""Create a synthetic run with known faults, from 8 ranks to many thousands."""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

from ingest.errors import UserError
from sample_traces.generate.faults import KINDS, SyntheticFault
from sample_traces.generate.job import LEVELS, SyntheticJob
from sample_traces.generate.tables.write import generate

PROGRESS_EVERY_S = 2.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of `rankscope generate`."""
    add = parser.add_argument
    add("out", type=Path, metavar="OUT", help="run folder to write; must be new or empty")
    add("--ranks", type=int, default=8, help="ranks of the job (default: %(default)s)")
    add("--pp", type=int, default=2, help="pipeline stages (default: %(default)s)")
    what = "tensor-parallel size (default: %(default)s); dp is what remains of the ranks"
    add("--tp", type=int, default=2, help=what)
    add("--steps", type=int, default=20, help="optimizer steps (default: %(default)s)")
    what = "micro-batches per step (default: %(default)s)"
    add("--microbatches", type=int, default=8, help=what)
    what = "parts of the model on each stage, above 1: interleaved 1F1B (default: %(default)s)"
    add("--chunks", type=int, default=1, help=what)
    what = "record sums per step, or every operation (default: %(default)s)"
    add("--level", choices=LEVELS, default="spans", help=what)
    add("--seed", type=int, default=1, help="equal seeds give equal runs (default: %(default)s)")
    what = "record statistics of the model every N steps (default: never)"
    add("--statistics", type=int, default=0, metavar="N", help=what)
    known = ", ".join(KINDS)
    what = f"plant a fault, such as slow_worker=5,x=1.3,from=8 (several allowed); known: {known}"
    add("--fault", action="append", default=[], metavar="KIND=WHERE,...", help=what)


def run(arguments: argparse.Namespace) -> int:
    """Write the run and print its path."""
    shown_s = time.monotonic()

    def progress(num_ranks: int) -> None:
        nonlocal shown_s
        if time.monotonic() - shown_s > PROGRESS_EVERY_S:
            shown_s = time.monotonic()
            print(f"{num_ranks} of {arguments.ranks} ranks", file=sys.stderr, flush=True)

    try:
        job = SyntheticJob(
            num_ranks=arguments.ranks,
            pp=arguments.pp,
            tp=arguments.tp,
            num_steps=arguments.steps,
            num_microbatches=arguments.microbatches,
            chunks=arguments.chunks,
            level=arguments.level,
            seed=arguments.seed,
            statistics=arguments.statistics,
            faults=tuple(SyntheticFault.parse(text) for text in arguments.fault),
        )
        num_spans = generate(job, arguments.out, progress)
    except ValueError as error:
        raise UserError(str(error)) from error
    except OSError as error:
        raise UserError(
            f"{arguments.out} cannot be written ({error.strerror}); give a new or an empty folder"
        ) from error
    ranks = f"{job.num_ranks} rank{'' if job.num_ranks == 1 else 's'}"
    steps = f"{job.steps_completed} step{'' if job.steps_completed == 1 else 's'}"
    print(
        f"{arguments.out}: {ranks} ({job.layout}), {steps}, "
        f"{num_spans} spans; inspect it with: rankscope info {arguments.out}"
    )
    return 0
