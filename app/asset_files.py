"""The browser's files: where they are, and a version of their content for the URL they have."""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path


def assets_folder() -> Path:
    """assets/ beside the package in a checkout, inside it in a wheel."""
    inside = Path(__file__).parent / "assets"
    return inside if inside.is_dir() else Path(__file__).parent.parent / "assets"


@cache
def assets_version() -> str:
    """Hash of all files; it stands in their path, so that relative imports carry it and browsers
    may keep them for ever.
    """
    digest = hashlib.sha256()
    for path in sorted(assets_folder().rglob("*")):
        if path.is_file():
            digest.update(path.relative_to(assets_folder()).as_posix().encode())
            digest.update(path.read_bytes())
    return digest.hexdigest()[:12]


def stylesheets() -> list[str]:
    """Paths of all style sheets below assets/, base.css first."""
    folder = assets_folder() / "css"
    names = sorted(path.name for path in folder.glob("*.css") if path.name != "base.css")
    return [f"css/{name}" for name in ["base.css", *names]]
