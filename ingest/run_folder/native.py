"""rankscope's own run folders: opened where they lie, never imported."""

from __future__ import annotations

from pathlib import Path

from ingest.errors import UserError
from ingest.run_folder.run_files import is_run_folder

NAME = "native"


def runs_at(path: Path) -> list[Path]:
    """Run folders that a path names: itself, or those directly below it, by name.

    Raises UserError for a folder that cannot be listed.
    """
    if is_run_folder(path):
        return [path]
    if not path.is_dir():
        return []
    try:
        children = sorted(path.iterdir())
    except OSError as error:
        raise UserError(
            f"{path} cannot be listed: {error.strerror}; check its permissions"
        ) from None
    return [child for child in children if is_run_folder(child) and not child.name.startswith(".")]
