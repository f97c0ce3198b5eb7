"""Write the logs of a failed job: `python -m sample_traces.logs.generate FOLDER --seed N`."""

from __future__ import annotations

import argparse
import json
import random
from dataclasses import asdict
from pathlib import Path

from sample_traces.logs import healthy
from sample_traces.logs.causes import AT_START, CAUSES
from sample_traces.logs.entries import SECOND_NS, Job, made_job
from sample_traces.logs.layouts import lost_ranks, write
from sample_traces.logs.truth import Truth

KINDS = tuple(CAUSES)


def failed_job(kind: str, seed: int | str) -> tuple[Job, Truth]:
    """All lines of a job with one failure, and the truth."""
    rng = random.Random(f"{kind} {seed}")
    job = made_job(rng)
    lasts_s = 40 if kind in AT_START else rng.randrange(300, 900)
    at_ns = job.start_ns + lasts_s * SECOND_NS + rng.randrange(SECOND_NS)
    healthy.start(job)
    healthy.steps(job, at_ns)
    return job, CAUSES[kind](job, at_ns)


def generate(folder: Path, kind: str, seed: int | str) -> tuple[Job, Truth]:
    """Write a job's logs below `folder`/logs, and its truth.json next to them."""
    job, truth = failed_job(kind, seed)
    needed = set(truth.ranks) or set(range(job.num_ranks))
    write(job, folder / "logs", lost_ranks(job.rng, job, needed))
    known = {"kind": kind, "seed": seed, "launcher": job.launcher, **asdict(truth)}
    (folder / "truth.json").write_text(json.dumps(known, indent=1) + "\n")
    return job, truth


def main() -> None:
    """From the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--kind", choices=KINDS, default=KINDS[0])
    given = parser.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    print(generate(given.folder, given.kind, given.seed)[1])


if __name__ == "__main__":
    main()
