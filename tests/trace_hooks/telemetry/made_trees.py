"""Files of /proc and /sys as other machines have them, written below a folder."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from trace_hooks.telemetry.reading import Reading, Source


def tree(root: Path, files: dict[str, str]) -> Path:
    """Write files by their paths below `root`."""
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def values(readings: Iterable[Reading]) -> dict[tuple[str, str], float]:
    """Value by device and metric; fails for one that could not be read."""
    found = {}
    for reading in readings:
        assert not reading.reason, reading
        found[reading.device, reading.metric] = reading.value
    return found


def reasons(source: Source) -> dict[tuple[str, str], str]:
    """Why the readings of a source that could not be read were not, by device and metric."""
    return {(r.device, r.metric): r.reason for r in source.read() if r.reason}
