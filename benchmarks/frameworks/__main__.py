"""Real jobs of training frameworks on CPUs: what the hooks record, and that they change nothing.

python -m benchmarks.frameworks --python VENV/bin/python [--results FILE] [--only CASE ...]
    [--gpus N]
    [--report FILE] [--write docs/frameworks.md]

Each job (jobs/) runs without hooks, under `python -m trace_hooks`, and with the lines of
docs/frameworks.md in its script. Losses, weights and exit codes must be equal bit for bit, steps,
layout and micro-batches those of the job (cases.py). Prints a JSON line for each; finished cases
are appended to the results, and with them it goes on where it ended. The exit code is 1 where
anything is not as it should be.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.frameworks.cases import CASES, Case, on_gpus
from benchmarks.frameworks.judge import problems
from benchmarks.frameworks.matrix import BEGIN, END, matrix
from benchmarks.frameworks.recorded import recorded
from benchmarks.frameworks.running import WAYS, ran, versions
from benchmarks.page_part import write_part


def measured(
    case: Case, python: Path, steps: int, ways: Sequence[str] = WAYS[1:]
) -> dict[str, Any]:
    """Run a case without hooks and in each of these ways; returns what differs and was recorded."""
    row: dict[str, Any] = {"case": case.name, "versions": versions(python, case.distributions)}
    with tempfile.TemporaryDirectory(prefix="rankscope-frameworks-") as scratch:
        plain = ran(case, "plain", Path(scratch) / "plain", python, steps)
        if plain.code:
            return row | {
                "problems": [f"without hooks it ends with {plain.code}: {plain.log[-600:]}"]
            }
        for way in ways:
            job = ran(case, way, Path(scratch) / way, python, steps)
            facts = [recorded(folder) for folder in job.runs]
            row[way] = summary(facts[0]) if len(facts) == 1 else None
            wrong = problems(case, way, plain, job, facts, steps)
            row.setdefault("problems", []).extend(f"{way}: {text}" for text in wrong)
    return row


def summary(fact: dict[str, Any]) -> dict[str, Any]:
    """What is recorded of a run, without its single steps."""
    num_steps = {rank: len(numbers) for rank, numbers in fact["steps"].items()}
    return fact | {"steps": num_steps, "losses": len(fact["losses"])}


def read(path: Path | None) -> dict[str, dict[str, Any]]:
    """Finished cases by name; none where there is no file."""
    if path is None or not path.exists():
        return {}
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    return {row["case"]: row for row in rows}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    add = parser.add_argument
    add("--python", type=Path, help="the environment that has the frameworks")
    add("--results", type=Path, help="JSON lines to append to, and to go on from")
    add("--only", nargs="+", choices=[case.name for case in CASES], metavar="CASE")
    add("--gpus", type=int, metavar="N", help="jobs that can, with N ranks on as many CUDA devices")
    add("--steps", type=int, default=24, help="optimizer steps of each job")
    add("--report", type=Path, metavar="FILE", help="print the matrix of these results")
    add("--write", type=Path, metavar="PAGE", help="... into this page")
    options = parser.parse_args()
    if options.report is None and options.python is None:
        parser.error("give --python VENV/bin/python to run the jobs, or --report FILE to print")
    rows = read(options.report or options.results)
    cases = on_gpus(options.gpus) if options.gpus else CASES
    for case in cases if options.report is None else ():
        if case.name in rows or (options.only and case.name not in options.only):
            continue
        rows[case.name] = measured(case, options.python.absolute(), options.steps)
        line = json.dumps(rows[case.name])
        print(line, flush=True)
        if options.results is not None:
            with options.results.open("a", encoding="utf-8") as file:
                file.write(line + "\n")
    ordered = [rows[case.name] for case in cases if case.name in rows]
    if options.report is not None:
        print(matrix(ordered))
    if options.write is not None:
        write_part(options.write, BEGIN, END, matrix(ordered))
    sys.exit(any(row["problems"] for row in ordered))


if __name__ == "__main__":
    main()
