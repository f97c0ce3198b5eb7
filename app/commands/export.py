"""Write a run, or the part of it that a view shows, into one file.

html: the view as a page of at most 2 MB, which opens offline. perfetto: the spans as a trace for
ui.perfetto.dev. parquet, csv: the rows of one table.

The view is a link of the dashboard, or its part after the run's name, such as
`timeline?rank=5&steps=10..12`. Without it, html shows the most urgent finding, the others
everything.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from app.analysis.imports import open_any
from app.commands.link_argument import check_problems, check_run, view_of
from app.runs.hub import Hub
from app.share.shared_file import file_name, shared_file
from app.view_state import LINKS_FIELD, View, explain, parse_url
from ingest.errors import UserError, printable
from ingest.exports.perfetto import write_perfetto
from ingest.exports.tables import write_csv, write_parquet
from ingest.exports.window import Window, published
from ingest.run import Run
from trace_hooks.schema import TABLES

FORMATS = ("html", "perfetto", "parquet", "csv")
_ENDINGS = {"perfetto": ".json", "parquet": ".parquet", "csv": ".csv"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of `rankscope export`."""
    parser.add_argument("export_run", type=Path, metavar="RUN", help="a run folder, or trace files")
    what = "a link of the dashboard, or the part of it after the run's name"
    parser.add_argument("view", nargs="?", default="", metavar="VIEW", help=what)
    what = "kind of file (default: %(default)s)"
    parser.add_argument("--format", choices=FORMATS, default="html", help=what)
    what = "file to write (default: named after the run)"
    parser.add_argument("--out", type=Path, metavar="FILE", help=what)
    what = "table whose rows parquet and csv write (default: %(default)s)"
    parser.add_argument("--table", choices=tuple(TABLES), default="spans", help=what)
    parser.add_argument("--ranks", metavar="0-3,8", help="these ranks instead of the view's")
    parser.add_argument("--steps", metavar="10..20", help="these steps instead of the view's")


def run(arguments: argparse.Namespace) -> int:
    """Write the file and print its path; 0. Raises UserError."""
    with open_any(arguments.export_run) as opened:
        view, problems = view_of(arguments.view, opened.folder.name)
        options = {"ranks": arguments.ranks, "steps": arguments.steps}
        query = "&".join(f"{name}={text}" for name, text in options.items() if text is not None)
        narrowed, more = parse_url("/run/x/overview", query)
        view = view.to(ranks=narrowed.ranks or view.ranks, steps=narrowed.steps or view.steps)
        problems += [text.replace(LINKS_FIELD, "--", 1) for text in more]
        check_problems(problems)
        check_run(arguments.view, opened.folder.resolve().name)
        if arguments.format != "html":
            return _export(opened, view, arguments)
        folder = opened.folder
    hub = Hub(folder)
    try:
        made = shared_file(hub, view)
    finally:
        hub.close()
    out = arguments.out or Path(made.name)
    with published(out) as file:
        file.write(made.content)
    print(printable(f"{out} ({len(made.content) / 1e6:.2f} MB)"))
    return 0


def _export(opened: Run, view: View, arguments: argparse.Namespace) -> int:
    problems = explain(view, opened)
    if problems:
        raise UserError(problems[0])
    table, kind = arguments.table, arguments.format
    name = Path(file_name(opened.folder.name, None if kind == "perfetto" else table))
    out = arguments.out or name.with_suffix(_ENDINGS[kind])
    window = window_of(view)
    if kind == "perfetto":
        written = write_perfetto(opened, window, out)
        amount = f"{written.num_spans:,} spans, {written.num_flows:,} flows"
    else:
        write = write_parquet if kind == "parquet" else write_csv
        amount = f"{write(opened, table, window, out):,} rows of {table}"
    print(printable(f"{out} ({amount}, {out.stat().st_size / 1e6:.2f} MB)"))
    return 0


def window_of(view: View) -> Window:
    """The part of a run that a view shows: its lanes, else its selected rank, else every rank."""
    ranks = view.ranks or (() if view.rank is None else (view.rank,))
    return Window(view.attempt, ranks, view.steps, view.t)
