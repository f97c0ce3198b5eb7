"""The option of verbs that may delete content: how long it is kept."""

from __future__ import annotations

import argparse
import os

from ingest.errors import UserError
from ingest.index.retention import FOREVER, Keep

KEEP_VARIABLE = "RANKSCOPE_KEEP_CONTENT"


def add_keep_argument(parser: argparse.ArgumentParser) -> None:
    """--keep-content."""
    what = "delete what went through models once it is too old or too much: 30d, 20GB, 30d,20GB"
    parser.add_argument(
        "--keep-content", metavar="AGE,SIZE", help=f"{what} ({FOREVER}); also {KEEP_VARIABLE}"
    )


def keep_of(arguments: argparse.Namespace) -> Keep:
    """What was asked for; raises UserError."""
    try:
        return Keep.parse(arguments.keep_content or os.environ.get(KEEP_VARIABLE) or FOREVER)
    except ValueError as error:
        raise UserError(str(error)) from error
