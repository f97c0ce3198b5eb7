"""The arguments of verbs that read one run, and how they open it."""

from __future__ import annotations

import argparse
from pathlib import Path

from app.analysis.imports import open_any
from app.commands.progress import reading_progress
from ingest.run import Run


def add_run_arguments(parser: argparse.ArgumentParser, metavar: str = "PATH") -> None:
    """Add the run's path and --json."""
    about = "run folder, trace file or folder"
    parser.add_argument("path", type=Path, metavar=metavar, help=about)
    parser.add_argument("--json", action="store_true", help="print one JSON object, for machines")


def open_run(path: Path) -> Run:
    """Open the run; imports trace files to a temporary folder first, with progress on stderr."""
    with reading_progress() as progress:
        return open_any(path, progress, progress.on_file)
