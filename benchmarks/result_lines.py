"""Results of benchmarks that take long: one JSON line per finished case.

A benchmark that is started again goes on where it ended.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from benchmarks.page_part import write_part

Rows = list[dict[str, Any]]


def read(path: Path | None) -> Rows:
    """Finished cases; none where there is no file."""
    if path is None or not path.exists():
        return []
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def append(path: Path, row: Mapping[str, Any]) -> None:
    """Add a finished case."""
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(row) + "\n")


def parser_of(doc: str | None) -> argparse.ArgumentParser:
    """A parser with --results, --report and --write; `doc`: of the benchmark, for its help."""
    parser = argparse.ArgumentParser(description=(doc or "").partition("\n")[0])
    add = parser.add_argument
    add("--results", type=Path, help="JSON lines to append to, and to go on from")
    add("--report", type=Path, metavar="FILE", help="print the tables of these results")
    add("--write", type=Path, metavar="PAGE", help="... into this page")
    return parser


def run_or_report(
    parser: argparse.ArgumentParser,
    run: Callable[[argparse.Namespace], None],
    report: Callable[[Rows], str],
    part: tuple[str, str],
) -> None:
    """Run what is not finished unless --report is given, then print the tables of all that is.

    `part`: the lines of the page of --write between which they come.
    """
    options = parser.parse_args()
    if options.report is None:
        if options.results is None:
            parser.error("give --results FILE to append to, or --report FILE to print")
        run(options)
    text = report(read(options.report or options.results))
    print(text)
    if options.write is not None:
        write_part(options.write, *part, text)


def run_cases(
    doc: str | None,
    cases: Mapping[str, Callable[[], dict[str, Any]]],
    report: Callable[[Rows], str],
    part: tuple[str, str],
) -> None:
    """The whole benchmark: measure the cases that are not finished (--only: these), and report."""
    parser = parser_of(doc)
    parser.add_argument("--only", nargs="+", choices=list(cases), metavar="CASE")

    def run(options: argparse.Namespace) -> None:
        done = {row["case"] for row in read(options.results)}
        for name in options.only or cases:
            if name not in done:
                row = cases[name]()
                append(options.results, row)
                print(report([row]), flush=True)

    run_or_report(parser, run, report, part)
