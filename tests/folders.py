"""Folders that tests read from."""

from pathlib import Path

REPO = Path(__file__).resolve().parents[1]
TRACES = REPO.parent / "shared" / "traces"
"""Real traces with known answers; not part of the repository, so tests skip where it is missing."""
FRAMEWORK_FILES = REPO / "tests" / "ingest" / "readers" / "framework_files"
"""Files that real frameworks wrote; README.md there says which."""
NO_TRACES = "the real traces are not part of the repository, and not next to it"
