"""Deletes a whole run: under a hidden name first, so that nobody ever sees a part of one."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

from ingest.index.index_lock import IndexLock
from ingest.index.indexer import Busy
from ingest.index.snapshots import index_folder
from ingest.run_folder.run_files import is_run_folder

REMOVED = ".removed-"
"""How the hidden name of a run begins that is being deleted."""
_OWN = re.compile(
    r"\..*|(run|layout|retention|pins|watchdog-.*)\.json|job-secret(\.sha256)?|watched|job\.log|ranks"
    r"|segments|compacted|index|rings|stacks|stacks\.request|kernels|attempts|agents"
    r"|incoming|received|quarantine"
)
"""Names in a run folder (docs/data-model.md)."""


def foreign_name(run_folder: Path) -> str:
    """Name of something in a run folder that is not of a run, such as a checkpoint; else empty."""
    names = sorted(path.name for path in run_folder.iterdir())
    return next((name for name in names if not _OWN.fullmatch(name)), "")


def delete_run(run_folder: Path) -> None:
    """Delete a run with everything in its folder. Raises Busy where another process indexes it, and
    OSError where it cannot be deleted; what is left of it then goes with `delete_leftovers`.
    """
    with IndexLock(index_folder(run_folder)) as lock:
        if not lock.acquire():
            raise Busy(f"another process is indexing {run_folder}")
        hidden = run_folder.with_name(f"{REMOVED}{run_folder.name}")
        if hidden.exists():
            shutil.rmtree(hidden)
        run_folder.rename(hidden)
        shutil.rmtree(hidden)


def delete_leftovers(runs: Path) -> list[str]:
    """Delete what is left of runs whose deletion was interrupted; their names. Raises OSError."""
    if is_run_folder(runs):
        return []
    names = []
    for hidden in runs.glob(f"{REMOVED}*"):
        if not hidden.is_symlink():
            shutil.rmtree(hidden)
            names.append(hidden.name.removeprefix(REMOVED))
    return names
