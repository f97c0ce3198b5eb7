"""Small recorded runs, the jobs that record them, and a generator of synthetic ones."""

from __future__ import annotations

from pathlib import Path

RECORDED = Path(__file__).parent / "recorded"


def recorded_runs() -> list[Path]:
    """Folders of the recorded runs that come with the package, by name."""
    return sorted(path.parent for path in RECORDED.glob("*/run.json"))
