"""Check every file of a run against its index, and say what is lost; --repair mends what can be.

Reads all data, so it takes a while. --repair sets damaged files aside in quarantine/ of the run
folder and makes the index again from the others. No other process may index the run meanwhile.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from dataclasses import asdict
from pathlib import Path

from app.commands.progress import MB, ProgressLine
from ingest.errors import UserError, printable
from ingest.index.doctor import Examined, examine, repair
from ingest.run_folder.run_files import RUN_FILE

EXIT_TROUBLE = 3
SHOWN = 20


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of `rankscope doctor`."""
    parser.add_argument("folder", type=Path, metavar="RUN", help="a run folder")
    parser.add_argument(
        "--repair", action="store_true", help="set damaged files aside and make the index again"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object, for machines")


def run(arguments: argparse.Namespace) -> int:
    """Print what is wrong; 3 if something is (after a repair: is lost)."""
    folder = arguments.folder
    if not (folder / RUN_FILE).is_file():
        raise UserError(
            f"{folder} is no run folder: it has no {RUN_FILE}; give the folder of a run"
        )
    line = ProgressLine(sys.stderr.isatty())

    def show(done: int, total: int) -> None:
        line.show(time.monotonic(), lambda: f"read {done / MB:,.0f} of {total / MB:,.0f} MB")

    found = examine(folder, show)
    line.clear()
    aside, left = None, found
    if arguments.repair and not found.is_sound:
        aside = repair(folder, found)
        left = examine(folder, show)
        line.clear()
    lost = [trouble for trouble in found.troubles if trouble.is_lost]
    if arguments.json:
        print(json.dumps(_as_json(found, left, aside)))
    else:
        print(_as_text(found, left, aside, arguments.repair))
    return EXIT_TROUBLE if lost or not left.is_sound else 0


def _as_json(found: Examined, left: Examined, aside: Path | None) -> dict[str, object]:
    return {
        "files": found.num_files,
        "rows": found.num_rows,
        "bytes": found.num_bytes,
        "index": found.index,
        "troubles": [asdict(trouble) | {"is_lost": trouble.is_lost} for trouble in found.troubles],
        "set_aside_in": None if aside is None else str(aside),
        "is_sound_now": left.is_sound,
    }


def _as_text(found: Examined, left: Examined, aside: Path | None, is_repair: bool) -> str:
    lines = [
        f"{found.num_files:,} files, {found.num_rows:,} rows, {found.num_bytes / MB:,.1f} MB read"
    ]
    lines += [f"index     {found.index}"] if found.index else []
    lines += [f"{trouble.what:11} {trouble.text}" for trouble in found.troubles[:SHOWN]]
    if len(found.troubles) > SHOWN:
        lines.append(f"and {len(found.troubles) - SHOWN:,} more; --json has all of them")
    if found.is_sound:
        lines.append("everything is as the index has it")
    elif not is_repair:
        lines.append(
            "nothing was changed; --repair sets damaged files aside and makes the index again"
        )
    else:
        lines += [f"set aside in {aside}"] if aside else []
        lines.append(
            "the index was made again from the files"
            if left.is_sound
            else f"{len(left.troubles)} files are still not as the index has them"
        )
    return "\n".join(map(printable, lines))
