"""Pin links of the dashboard, so that `rankscope gc` keeps the steps that they show; list them.

A link that names steps or a window of time keeps these steps, one that names a finding keeps its
steps, and any other the whole run.
"""

from __future__ import annotations

import argparse
import json
import re
from pathlib import Path
from urllib.parse import unquote, urlsplit

import msgspec

from app.commands.export import view_of
from app.view_state import SHOWN_INSTEAD
from ingest.errors import UserError, printable
from ingest.run_folder.pins import pin, read_pins, unpin
from ingest.run_folder.run_files import read_run_info

_RUN = re.compile(r"(?:^|/)run/([^/]+)")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of `rankscope pin`."""
    parser.add_argument("folder", type=Path, metavar="RUN", help="a run folder")
    what = "a link of the dashboard, or the part of it after the run's name; without it: list"
    parser.add_argument("link", nargs="?", metavar="LINK", help=what)
    parser.add_argument("--note", default="", help="why, for those who see it later")
    parser.add_argument("--remove", action="store_true", help="unpin the link")
    parser.add_argument("--json", action="store_true", help="print one JSON object, for machines")


def _check_run(link: str, folder: Path) -> None:
    """Raise UserError where a link is one of another run: its steps are not those of this one."""
    found = _RUN.search(urlsplit(link).path)
    name = unquote(found[1]).rsplit("/", 1)[-1] if found else ""
    own = folder.resolve().name
    if name and name != own:
        raise UserError(
            f"the link shows the run {name}, not {own}; give that run's folder, or only the part "
            "of the link after the run's name"
        )


def run(arguments: argparse.Namespace) -> int:
    """Pin, unpin or list; 0. Raises UserError."""
    folder = arguments.folder
    read_run_info(folder)  # raises where it is no run folder
    if arguments.link is None and (arguments.remove or arguments.note):
        raise UserError("--remove and --note need a link")
    if arguments.link is not None:
        view, problems = view_of(arguments.link, "x")
        link = view.url().removeprefix("/run/x/")
        if arguments.remove and not unpin(folder, link):
            raise UserError(
                f"{link} is not pinned in {folder.name}; without a link, pins are listed"
            )
        if not arguments.remove and problems:
            raise UserError(problems[0].removesuffix(SHOWN_INSTEAD))
        if not arguments.remove:
            _check_run(arguments.link, folder)
            pin(folder, link, arguments.note)
    pins = read_pins(folder)
    if arguments.json:
        print(json.dumps({"pins": [msgspec.to_builtins(one) for one in pins]}))
        return 0
    lines = [f"{one.link}  {one.note}".rstrip() for one in pins] or ["no link is pinned"]
    print("\n".join(map(printable, lines)))
    return 0
