"""Write what a view of a run shows into one HTML file of at most 2 MB, which opens offline.

The view is a link of the dashboard, or the part of one after the run's name, such as
`timeline?rank=5&steps=10..12`; without it the most urgent finding is shown.
"""

from __future__ import annotations

import argparse
import os
import re
from pathlib import Path
from urllib.parse import urlsplit

from app.hub import Hub
from app.links import View, parse_url
from app.routes.share import file_name
from app.share.page import shared_page
from ingest.errors import UserError, printable
from ingest.imports import open_any

FORMATS = ("html",)
_RUN_IN_LINK = re.compile(r"^(?P<base>.*?)/run/[^/]+/")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of `rankscope export`."""
    parser.add_argument("export_run", type=Path, metavar="RUN", help="a run folder, or trace files")
    parser.add_argument("view", nargs="?", default="", metavar="VIEW", help="a link or its end")
    parser.add_argument("--format", choices=FORMATS, default="html", help="(%(default)s)")
    parser.add_argument("--out", type=Path, metavar="FILE", help="the file (named after the run)")


def run(arguments: argparse.Namespace) -> int:
    """Write the file and say where it is; 0. Raises UserError."""
    with open_any(arguments.export_run) as opened:
        folder = opened.folder
    view, problems = view_of(arguments.view, folder.name)
    if problems:
        raise UserError(problems[0])
    out = arguments.out or Path(file_name(folder.name, view.finding))
    hub = Hub(folder)
    try:
        content = shared_page(hub, view)
    finally:
        hub.close()
    _write(out, content)
    print(printable(f"{out} ({len(content) / 1e6:.2f} MB)"))
    return 0


def view_of(text: str, run: str) -> tuple[View, list[str]]:
    """View of a link, of its end, or of nothing, in the run of that name; what was damaged."""
    parts = urlsplit(text)
    inside = _RUN_IN_LINK.sub("", parts.path, count=1).strip("/")
    view, problems = parse_url(f"/run/x/{inside}", parts.query)
    return view.to(run=run), problems


def _write(out: Path, content: bytes) -> None:
    """The whole file or none of it; raises UserError."""
    temporary = out.with_name(f".{out.name}.{os.getpid()}.tmp")
    try:
        temporary.write_bytes(content)
        temporary.replace(out)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise UserError(f"{out} cannot be written: {error.strerror}; name another") from None
