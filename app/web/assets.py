"""The browser's files: their folder, and a hash of their content for their URLs."""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path

TYPES = {".mjs": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}
"""Media types of the files that the browser may load, by suffix."""


def assets_folder() -> Path:
    """assets/ next to the package in a checkout, inside it in a wheel."""
    inside = Path(__file__).parents[1] / "assets"
    return inside if inside.is_dir() else Path(__file__).parents[2] / "assets"


@cache
def assets_version() -> str:
    """Hash of all files; part of their path, so that relative imports include it and browsers may
    cache them forever.
    """
    digest = hashlib.sha256()
    for path in sorted(assets_folder().rglob("*")):
        if path.is_file():
            digest.update(path.relative_to(assets_folder()).as_posix().encode())
            digest.update(path.read_bytes())
    return digest.hexdigest()[:12]


STYLE = "css/all.css"
"""All style sheets in one: each extra file is an extra request before the first paint."""


def asset(name: str) -> bytes | None:
    """Content of a file below assets/; None if the browser may not load such a file."""
    folder = assets_folder().resolve()
    if name == STYLE:
        return _style(folder)
    try:
        path = (folder / name).resolve()
        is_ours = path.is_relative_to(folder) and path.suffix in TYPES
        return path.read_bytes() if is_ours else None
    except (OSError, ValueError):  # no such file, a name too long, a null byte
        return None


def _style(folder: Path) -> bytes:
    """css/base.css, then the others by name."""
    names = sorted(path.name for path in (folder / "css").glob("*.css") if path.name != "base.css")
    return b"\n".join((folder / "css" / name).read_bytes() for name in ["base.css", *names])
