"""Query a run with a SELECT of your own, or with one of the saved queries by name.

SQL can read the raw tables (spans, collectives, steps, ...) and the rollups (step_rollup,
kind_rollup, collective_rollup, ranks, files, ...); docs/data-model.md describes them.
"""

from __future__ import annotations

import argparse
import csv
import datetime
import json
import math
import sys
from collections.abc import Sequence
from numbers import Number
from pathlib import Path
from typing import Any

import pyarrow as pa

from app import interrupts
from app.analysis.imports import open_any
from app.commands.engine_options import add_engine_arguments, session_of
from ingest.errors import UserError, printable
from ingest.exports.csv_cells import harmless
from ingest.query.saved_queries import SavedQuery, saved_queries
from ingest.run import TIME_LIMIT_S, Run
from ingest.stopping import Stop

_WIDEST = 60
_LONGEST_S = 86_400.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of `rankscope query`."""
    parser.add_argument(
        "query_run", nargs="?", type=Path, metavar="RUN", help="a run folder, or trace files"
    )
    parser.add_argument(
        "question", nargs="?", metavar="SQL|NAME", help="a SELECT, or the name of a saved query"
    )
    parser.add_argument(
        "values", nargs="*", metavar="KEY=VALUE", help="parameters of a saved query"
    )
    parser.add_argument("--list", action="store_true", help="list the saved queries")
    parser.add_argument(
        "--limit-s",
        type=_seconds,
        default=TIME_LIMIT_S,
        help="time limit, s (default: %(default)s)",
    )
    what = "let SQL also read recorded model content: the table frames"
    parser.add_argument("--content", action="store_true", help=what)
    add_engine_arguments(parser)
    output = parser.add_mutually_exclusive_group()
    output.add_argument("--json", action="store_true", help="an array of objects")
    output.add_argument("--csv", action="store_true", help="comma-separated values with a header")


def _seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 < value <= _LONGEST_S:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a number of seconds above 0 and up to {_LONGEST_S:.0f}"
        )
    return value


def run(arguments: argparse.Namespace) -> int:
    """Print the answer; 0. Raises UserError."""
    if arguments.list:
        _print_list(saved_queries(), arguments.json)
        return 0
    if arguments.query_run is None or arguments.question is None:
        raise UserError('give a run and a query, such as RUN "SELECT count(*) FROM spans"')
    text = arguments.question.strip()
    with open_any(arguments.query_run) as opened:
        interrupts.check()  # DuckDB swallows a Ctrl-C while it opens
        with session_of(arguments) as spark:
            if spark is None:
                answer = interrupts.stoppable(lambda stop: _answer(opened, text, arguments, stop))
            else:
                from ingest.spark.questions import spark_answers

                with spark_answers(spark, opened) as ask:
                    answer = ask(text, **_pairs(arguments.values))
    _print_table(answer, arguments)
    return 0


def _answer(run: Run, text: str, arguments: argparse.Namespace, stop: Stop) -> pa.Table:
    limit_s: float = arguments.limit_s
    if text in saved_queries() or " " not in text:
        return run.ask(text, limit_s=limit_s, stop=stop, **_pairs(arguments.values))
    if arguments.values:
        raise UserError("KEY=VALUE is for saved queries; write values into the SQL")
    return run.sql(text, limit_s=limit_s, stop=stop, with_content=arguments.content)


def _pairs(texts: Sequence[str]) -> dict[str, str]:
    pairs = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals or not key or not value:
            raise UserError(f"{text!r} is not KEY=VALUE; write for example step=7")
        pairs[key] = value
    return pairs


def _print_list(questions: dict[str, SavedQuery], as_json: bool) -> None:
    if as_json:
        rows = [
            {
                "name": question.name,
                "meaning": question.doc,
                "parameters": [parameter.__dict__ for parameter in question.parameters],
                "columns": dict(question.columns),
                "empty": question.empty,
            }
            for question in questions.values()
        ]
        print(json.dumps(rows, indent=1))
        return
    for question in questions.values():
        takes = [
            f"{p.name}=..." if p.required else f"[{p.name}={p.shown_default}]"
            for p in question.parameters
        ]
        print(f"{question.name} {' '.join(takes)}".rstrip())
        print(f"    {question.doc}")


def _print_table(answer: pa.Table, arguments: argparse.Namespace) -> None:
    if arguments.json:
        columns = [_values(column, finite=True) for column in answer.columns]
        rows = [
            dict(zip(answer.column_names, row, strict=True)) for row in zip(*columns, strict=True)
        ]
        print(json.dumps(rows, indent=1, default=str))
    elif arguments.csv:
        writer = csv.writer(sys.stdout, lineterminator="\n")
        writer.writerow(map(harmless, answer.column_names))
        columns = [map(_csv_cell, _values(column)) for column in answer.columns]
        writer.writerows(zip(*columns, strict=True))
    else:
        print(_as_text(answer))


def _csv_cell(value: Any) -> Any:
    """Numbers and NULL unchanged, everything else as text that spreadsheets do not run as a
    formula.
    """
    return value if value is None or isinstance(value, Number) else harmless(str(value))


def _values(column: pa.ChunkedArray, finite: bool = False) -> list[Any]:
    """Python values of a column; `finite`: None for values that JSON cannot express (nan, inf)."""
    if finite and pa.types.is_floating(column.type):
        return [
            value if value is None or math.isfinite(value) else None for value in column.to_pylist()
        ]
    try:
        values: list[Any] = column.to_pylist()
    except (OverflowError, ValueError):  # times beyond Python's: infinity, years from 10000
        values = column.cast(f"int{column.type.bit_width}").to_pylist()
    return values


def _as_text(answer: pa.Table) -> str:
    """Aligned columns, numbers right-aligned."""
    columns = []
    for name, column in zip(answer.column_names, answer.columns, strict=True):
        cells = [_cell(value) for value in _values(column)]
        name = printable(name)
        width = max([len(name), *(len(cell) for cell in cells)])
        is_number = pa.types.is_integer(column.type) or pa.types.is_floating(column.type)
        columns.append(
            [cell.rjust(width) if is_number else cell.ljust(width) for cell in [name, *cells]]
        )
    lines = ["  ".join(cells).rstrip() for cells in zip(*columns, strict=True)]
    count = f"({answer.num_rows} row{'' if answer.num_rows == 1 else 's'})"
    return "\n".join([*lines, count])


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, datetime.datetime):
        return value.isoformat()
    text = printable(" ".join(str(value).split()))
    return text if len(text) <= _WIDEST else text[: _WIDEST - 3] + "..."
