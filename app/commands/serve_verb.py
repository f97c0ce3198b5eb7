"""Serve the dashboard for a folder of runs."""

from __future__ import annotations

import argparse
from pathlib import Path

from app.server import serve


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of `rankscope serve`."""
    parser.add_argument("runs", type=Path, metavar="RUNS", help="a folder of runs, or one run")
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (%(default)s)")
    parser.add_argument("--port", type=int, default=8050, help="port (%(default)s)")


def run(arguments: argparse.Namespace) -> int:
    """Serve until Ctrl-C."""
    serve(arguments.runs, arguments.host, arguments.port)
    return 0
