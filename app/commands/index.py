"""Index a run or a folder of runs: read new files, merge small ones, publish; once or continuously.

A running server does the same. Only one process at a time can index a run.
"""

from __future__ import annotations

import argparse
import json
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from app.commands.engine_options import add_engine_arguments, engine_of
from app.commands.retention_option import add_keep_argument, keep_of
from ingest.errors import UserError, printable
from ingest.index.indexer import FOLLOW_S, Busy, Indexer
from ingest.run import RunStore


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of `rankscope index`."""
    parser.add_argument("runs", type=Path, metavar="RUNS", help="a run folder or a folder of runs")
    parser.add_argument("--follow", action="store_true", help="continue until interrupted")
    parser.add_argument("--json", action="store_true", help="one JSON object per run and pass")
    add_engine_arguments(parser)
    add_keep_argument(parser)


def run(arguments: argparse.Namespace) -> int:
    """Index everything once, or until interrupted; 0. Raises UserError if another process
    indexes.
    """
    store, keep = RunStore(arguments.runs), keep_of(arguments)
    if not arguments.follow and not store.folders():
        raise UserError(f"{arguments.runs} contains no run; give a run folder or a folder of runs")
    with ExitStack() as owned:
        engine = owned.enter_context(engine_of(arguments))
        indexers: dict[Path, Indexer] = {}
        while True:
            begun = time.monotonic()
            for folder in store.folders():
                with _told_if_busy():
                    if folder not in indexers:
                        indexers[folder] = owned.enter_context(Indexer(folder, keep, engine))
                    _one_pass(folder, indexers[folder], arguments.json)
            if not arguments.follow:
                return 0
            threading.Event().wait(max(FOLLOW_S, time.monotonic() - begun))


@contextmanager
def _told_if_busy() -> Iterator[None]:
    try:
        yield
    except Busy as error:
        raise UserError(f"{error}; stop it, or use the index that it publishes") from error


def _one_pass(folder: Path, indexer: Indexer, as_json: bool) -> None:
    begun = time.perf_counter()
    done = indexer.refresh()
    seconds = time.perf_counter() - begun
    if not done.published:
        return
    if as_json:
        counts = {
            "new_files": done.new_files,
            "set_aside": done.problems,
            "merged": done.merged_files,
        }
        print(json.dumps({"run": folder.name, **counts, "seconds": round(seconds, 3)}))
    else:
        aside = f", {done.problems} set aside" if done.problems else ""
        print(
            f"{printable(folder.name)}: {done.new_files} new files{aside}, "
            f"{done.merged_files} merged, {seconds:.2f} s",
            flush=True,
        )
