"""Read trace files of any known format into a run folder."""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

from app.commands.progress import reading_progress
from ingest.errors import printable
from ingest.imports.worker_command import first_started_ahead
from ingest.process_tuning import without_pandas


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of `rankscope import`."""
    add = parser.add_argument
    add("files", type=Path, nargs="+", metavar="FILE", help="trace files of one job, or folders")
    what = "folder of runs to write into (default: %(default)s)"
    add("--into", type=Path, default=Path("runs"), metavar="RUNS", help=what)
    what = "name of the run (default: name of the first file); a hash of the content is added"
    add("--name", help=what)
    add("--json", action="store_true", help="print one JSON object, for machines")


def run(arguments: argparse.Namespace) -> int:
    """Import; print the run's folder and what was wrong with the files."""
    begun_ns = time.time_ns()
    without_pandas()
    with first_started_ahead(), reading_progress() as progress:
        # these load numpy and pyarrow while the worker process loads them as well
        from app.analysis.imports import import_paths
        from ingest.run_folder.run_files import RUN_FILE

        folder = import_paths(
            arguments.files, arguments.into, progress, arguments.name, progress.on_file
        )
    run_file = folder / RUN_FILE
    is_known = run_file.stat().st_mtime_ns < begun_ns
    run_info = json.loads(run_file.read_text(encoding="utf-8"))
    problems, guesses = run_info["problems"], run_info["guesses"]
    if arguments.json:
        answer = {"run": run_info["run"], "folder": str(folder), "format": run_info["source"]}
        answer |= {"known": is_known, "problems": problems, "guesses": guesses}
        print(json.dumps(answer))
        return 0
    print(printable(str(folder)))
    if is_known:
        print("these files had already been imported; this is their run")
    for kind, texts in (("problem", problems), ("guess", guesses)):
        for text in texts:
            print(printable(f"{kind}: {text}"))
    return 0
