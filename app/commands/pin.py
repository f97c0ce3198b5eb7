"""Pin links of the dashboard, so that `rankscope gc` keeps the steps that they show; list them.

A link that names steps or a window of time keeps these steps, one that names a finding keeps its
steps, and any other the whole run.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import msgspec

from app.commands.link_argument import check_problems, check_run, view_of
from ingest.errors import UserError, printable
from ingest.run_folder.pins import pin, read_pins, unpin
from ingest.run_folder.run_files import read_run_info


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of `rankscope pin`."""
    parser.add_argument("folder", type=Path, metavar="RUN", help="a run folder")
    what = "a link of the dashboard, or the part of it after the run's name; without it: list"
    parser.add_argument("link", nargs="?", metavar="LINK", help=what)
    parser.add_argument("--note", default="", help="why, for those who see it later")
    parser.add_argument("--remove", action="store_true", help="unpin the link")
    parser.add_argument("--json", action="store_true", help="print one JSON object, for machines")


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
        if not arguments.remove:
            check_problems(problems)
            check_run(arguments.link, folder.resolve().name)
            pin(folder, link, arguments.note)
    pins = read_pins(folder)
    if arguments.json:
        print(json.dumps({"pins": [msgspec.to_builtins(one) for one in pins]}))
        return 0
    lines = [f"{one.link}  {one.note}".rstrip() for one in pins] or ["no link is pinned"]
    print("\n".join(map(printable, lines)))
    return 0
