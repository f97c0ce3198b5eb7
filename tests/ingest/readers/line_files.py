"""Files of one JSON object per line, built by hand."""

from __future__ import annotations

import json
from pathlib import Path


def write_lines(folder: Path, name: str, *lines: object) -> Path:
    """A file in `folder`, which it makes; lines that are text are written as they are."""
    folder.mkdir(exist_ok=True)
    path = folder / name
    texts = [one if isinstance(one, str) else json.dumps(one) for one in lines]
    path.write_text("".join(f"{text}\n" for text in texts))
    return path
