"""rankscope's own run folders: opened where they lie, never imported."""

from __future__ import annotations

from pathlib import Path

from ingest.run_files import is_run_folder

NAME = "native"


def runs_at(path: Path) -> list[Path]:
    """Run folders that a path names: itself, or those directly below it, by name."""
    if is_run_folder(path):
        return [path]
    if not path.is_dir():
        return []
    return sorted(
        child for child in path.iterdir() if is_run_folder(child) and not child.name.startswith(".")
    )
