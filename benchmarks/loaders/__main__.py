"""Faults of data loaders in real jobs of four ranks: what `rankscope` names.

python -m benchmarks.loaders --results FILE [--faults 48] [--healthy 30] [--seed N] [--only KIND ..]
    [--keep FOLDER]
python -m benchmarks.loaders --again FOLDER --results FILE    kept runs, the rules of today
python -m benchmarks.loaders --report FILE [--write docs/data-loading.md]

Each job has one fault from a drawn step on, on a drawn rank, worker or source, with two to four
workers a rank, forked or spawned; what counts as right stands in faults.py. Every finished job is
appended to the results; started again, it goes on.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from typing import Any

from benchmarks.accuracy.intervals import wilson
from benchmarks.hosts.job import asked
from benchmarks.loaders.faults import KINDS, SLOW_SOURCES, SOURCES, Fault
from benchmarks.real_faults import repeat
from benchmarks.result_lines import append, parser_of, read, run_or_report
from ingest.errors import UserError

JOB = Path(__file__).with_name("job.py")
REPO = Path(__file__).resolve().parents[2]
RANKS, LIMIT_S = 4, 300.0
MARK = "<!-- benchmarks.loaders replaces what follows -->"
TRUTH = "truth.json"
OF_LOADERS = {kind.finding for kind in KINDS.values()}
NONE = Fault("", -1, -1, "", 0)


def drawn(seed: int, kinds: list[str]) -> Iterator[tuple[Fault, int, str]]:
    """Faults without end, always the same for one seed, with the number of workers and how they
    start.
    """
    source, deck = random.Random(seed), list[tuple[str, str]]()
    while True:
        if not deck:
            deck = [(kind, context) for kind in kinds for context in ("fork", "spawn")]
            source.shuffle(deck)
        kind, context = deck.pop()
        workers = source.randint(2, 4)
        names = SLOW_SOURCES if kind == "source" else tuple(SOURCES)
        rank, worker = source.randrange(RANKS), source.randrange(workers)
        first = source.randint(30, 60)
        yield Fault(kind, rank, worker, source.choice(names), first), workers, context


def one_job(fault: Fault, workers: int, context: str, keep: Path | None) -> dict[str, Any]:
    """Run it and ask; raises UserError where it does not end well."""
    folder = Path(tempfile.mkdtemp(prefix="rankscope-loaders-"))
    try:
        environ = {k: v for k, v in os.environ.items() if not k.startswith("TRACE_HOOKS")}
        environ |= {"TRACE_HOOKS_FOLDER": str(folder), "TRACE_HOOKS_RUN": "run"}
        environ |= {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(REPO)}
        command = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
        command += ["--nproc-per-node", str(RANKS), str(JOB)]
        command += [json.dumps(asdict(fault)), str(workers), context]
        with (folder / "log").open("w") as log:
            code = subprocess.run(
                command, env=environ, stdout=log, stderr=log, timeout=LIMIT_S, check=False
            ).returncode
        if code:
            raise UserError(f"the job ended with {code}; its last lines: {_end(folder / 'log')}")
        truth = {"fault": asdict(fault), "workers": workers, "context": context}
        row = judged(fault, folder / "run") | truth
        if keep is not None:
            kept = keep / f"{fault.kind or 'healthy'}-{len(list(keep.iterdir()))}"
            kept.mkdir()
            shutil.move(str(folder / "run"), kept / "run")
            (kept / TRUTH).write_text(json.dumps(truth), encoding="utf-8")
        return row
    except subprocess.TimeoutExpired as error:
        raise UserError(f"the job took longer than {LIMIT_S:.0f} s") from error
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _end(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="replace")[-500:]


def judged(fault: Fault, run: Path) -> dict[str, Any]:
    """Who and cause right, and findings that name something else."""
    who = cause = False
    others = []
    for finding in asked("diagnose", str(run))["findings"]:
        is_who, is_cause = fault.is_found_in(finding) if fault.kind else (False, False)
        who, cause = who or is_who, cause or is_cause
        if not is_who and (finding["culprits"] or finding["kind"] in OF_LOADERS):
            others.append(f"{finding['kind']}: {finding['text']} {finding['cause']}"[:400])
    return {"who": who, "cause": cause, "others": others}


def run(options: argparse.Namespace) -> None:
    """Jobs with faults, then healthy ones, until there are enough."""

    def work() -> bool:
        rows = read(options.results)
        with_fault = sum(bool(row["fault"]["kind"]) for row in rows)
        if with_fault < options.faults:
            fault, workers, context = next(
                islice(drawn(options.seed, options.only), with_fault, None)
            )
        elif len(rows) - with_fault < options.healthy:
            number = len(rows) - with_fault
            fault, workers, context = NONE, 2 + number % 3, ("fork", "spawn")[number % 2]
        else:
            return False
        row = one_job(fault, workers, context, options.keep)
        append(options.results, row)
        print(line_of(row), flush=True)
        return True

    repeat(work, math.inf)


def again(options: argparse.Namespace) -> None:
    """Judge kept runs."""
    for path in sorted(options.again.glob(f"*/{TRUTH}")):
        truth = json.loads(path.read_text(encoding="utf-8"))
        row = judged(Fault(**truth["fault"]), path.parent / "run") | truth
        append(options.results, row)
        print(line_of(row), flush=True)


def line_of(row: dict[str, Any]) -> str:
    """One job, for the screen."""
    fault = Fault(**row["fault"])
    where = f"{row['workers']} workers, {row['context']}"
    if not fault.kind:
        return "\n    ".join([f"healthy, {where}", *row["others"]])
    right = "right" if row["cause"] else "cause WRONG" if row["who"] else "WRONG"
    what = f"{fault.kind} rank {fault.rank} worker {fault.worker} {fault.source}"
    return "\n    ".join([f"{what}, {where}: {right}", *row["others"]])


def report(rows: list[dict[str, Any]]) -> str:
    """Tables by fault."""
    lines = ["| fault | jobs | who right | who and cause right | other findings |"]
    lines.append("|---|---|---|---|---|")
    faults = [row for row in rows if row["fault"]["kind"]]
    for name, kind in KINDS.items():
        own = [row for row in faults if row["fault"]["kind"] == name]
        if own:
            who, cause = (sum(row[what] for row in own) for what in ("who", "cause"))
            others = sum(bool(row["others"]) for row in own)
            lines.append(f"| {kind.does} | {len(own)} | {who} | {cause} | {others} |")
    right = sum(row["cause"] for row in faults)
    low, high = wilson(right, len(faults)) if faults else (0.0, 0.0)
    healthy = [row for row in rows if not row["fault"]["kind"]]
    false = Counter(text.partition(":")[0] for row in healthy for text in row["others"])
    num_false = sum(bool(row["others"]) for row in healthy)
    lines += [
        "",
        f"Who and cause right in {right} of {len(faults)} jobs ({low:.0%} to {high:.0%}).",
        f"Findings that name somebody or a loader in {num_false} of {len(healthy)} healthy jobs"
        + (f": {dict(false)}." if false else "."),
    ]
    return "\n".join(lines)


def main() -> None:
    parser = parser_of(__doc__)
    add = parser.add_argument
    add("--faults", type=int, default=48, help="jobs with a fault (%(default)s)")
    add("--healthy", type=int, default=30, help="jobs without (%(default)s)")
    add("--seed", type=int, default=random.randrange(10**6), help="(another one each time)")
    add("--only", nargs="+", choices=KINDS, default=list(KINDS))
    add("--keep", type=Path, help="existing folder that keeps the run folders")
    add("--again", type=Path, metavar="FOLDER", help="judge the runs kept there again")

    def work(options: argparse.Namespace) -> None:
        (again if options.again else run)(options)

    run_or_report(parser, work, report, (MARK, "<!-- end -->"))


if __name__ == "__main__":
    main()
