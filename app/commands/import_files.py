"""Read trace files of any known format into a run folder."""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from pathlib import Path

from app.commands.given_path import given_text
from app.commands.progress import reading_progress, storing_progress
from ingest.errors import UserError, printable
from ingest.imports.worker_command import first_started_ahead
from ingest.object_store.address import is_address, parse_address
from ingest.process_tuning import without_pandas

_NO_FOLLOW = "--follow is for one run folder with --into s3://BUCKET/PREFIX; leave it out"
_ABOUT_KNOWN = "these files had already been imported; this is their run"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of `rankscope import`."""
    add = parser.add_argument
    add("files", type=Path, nargs="+", metavar="FILE", help="trace files of one job, or folders")
    what = "folder of runs to write into, or s3://BUCKET/PREFIX (default: %(default)s)"
    add("--into", type=given_text, default="runs", metavar="RUNS", help=what)
    what = "name of the run (default: name of the first file); a hash of the content is added"
    add("--name", help=what)
    what = "a run folder into s3://: store what is new every few seconds, until the run has ended"
    add("--follow", action="store_true", help=what)
    add("--json", action="store_true", help="print one JSON object, for machines")


def run(arguments: argparse.Namespace) -> int:
    """Import; print the run's folder and what was wrong with the files."""
    begun_ns = time.time_ns()
    without_pandas()
    if is_address(arguments.into):
        return _into_bucket(arguments)
    if arguments.follow:
        raise UserError(_NO_FOLLOW)
    folder = _imported(arguments, Path(arguments.into))
    from ingest.run_folder.run_files import RUN_FILE

    is_known = (folder / RUN_FILE).stat().st_mtime_ns < begun_ns
    _print(arguments.json, folder, str(folder), is_known)
    return 0


def _imported(arguments: argparse.Namespace, runs: Path) -> Path:
    """Import into a folder of runs; the run's folder."""
    with first_started_ahead(), reading_progress() as progress:
        # it loads numpy and pyarrow while the worker process loads them as well
        from app.analysis.imports import import_paths

        return import_paths(arguments.files, runs, progress, arguments.name, progress.on_file)


def _into_bucket(arguments: argparse.Namespace) -> int:
    """Import into a temporary folder, and store the run unless the bucket has it; of a run folder
    what the bucket lacks is stored as it is.
    """
    from app.commands.stored_folder import store_run_folder
    from ingest.object_store.connection import connected
    from ingest.object_store.upload import stored_as, upload_run
    from ingest.run_folder.run_files import is_run_folder

    address = parse_address(arguments.into)
    store = connected(address)
    store.folders()  # what is wrong with the bucket is said before the import, not after it
    given = arguments.files[0].resolve()
    if len(arguments.files) == 1 and is_run_folder(given):
        is_known = store_run_folder(store, given, arguments.follow)
        about = "a part of this run was there before; what it lacked was stored"
        _print(arguments.json, given, f"{address}/{given.name}", is_known, about)
        return 0
    if arguments.follow:
        raise UserError(_NO_FOLLOW)
    with tempfile.TemporaryDirectory(prefix="rankscope-") as runs:
        folder = _imported(arguments, Path(runs))
        known = stored_as(store, folder.name)
        if known is None:
            with storing_progress() as progress:
                upload_run(store, folder, progress)
        where = f"{address}/{known or folder.name}"
        _print(arguments.json, folder, where, is_known=known is not None)
    return 0


def _print(
    as_json: bool, folder: Path, where: str, is_known: bool, about_known: str = _ABOUT_KNOWN
) -> None:
    """What became of the import; `where`: of the run that it made or found."""
    from ingest.run_folder.run_files import RUN_FILE

    run_info = json.loads((folder / RUN_FILE).read_text(encoding="utf-8"))
    problems, guesses = run_info.get("problems", []), run_info.get("guesses", [])
    if as_json:
        run = where.rpartition("/")[2]
        answer = {"run": run, "folder": where, "format": run_info["source"]}
        answer |= {"known": is_known, "problems": problems, "guesses": guesses}
        print(json.dumps(answer))
        return
    print(printable(where))
    if is_known:
        print(about_known)
    for kind, texts in (("problem", problems), ("guess", guesses)):
        for text in texts:
            print(printable(f"{kind}: {text}"))
