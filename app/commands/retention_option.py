"""The option --keep-content of verbs that may delete content."""

from __future__ import annotations

import argparse
import os

from ingest.errors import UserError
from ingest.index.retention import FOREVER, Keep

KEEP_VARIABLE = "RANKSCOPE_KEEP_CONTENT"


def add_keep_argument(parser: argparse.ArgumentParser) -> None:
    """Add --keep-content."""
    what = (
        "delete recorded model content that is too old or too large: 30d, 20GB, 30d,20GB "
        f"(default: {FOREVER}); also {KEEP_VARIABLE}"
    )
    parser.add_argument("--keep-content", metavar="AGE,SIZE", help=what)


def keep_of(arguments: argparse.Namespace) -> Keep:
    """The requested retention; raises UserError."""
    try:
        return Keep.parse(arguments.keep_content or os.environ.get(KEEP_VARIABLE) or FOREVER)
    except ValueError as error:
        raise UserError(str(error)) from error
