"""Paths as a verb's arguments give them."""

from __future__ import annotations

import argparse
from pathlib import Path


def given_text(text: str) -> str:
    """A path or an address; raises ArgumentTypeError where it is empty.

    An unset variable of a shell is: to Path it is the current folder, all of which would be read.
    """
    if not text.strip():
        raise argparse.ArgumentTypeError("it is empty; give a path, or . for the current folder")
    return text


def given_path(text: str) -> Path:
    """The path; raises ArgumentTypeError where it is empty."""
    return Path(given_text(text))
