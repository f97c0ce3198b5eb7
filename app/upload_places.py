"""Folders of uploads below RUNS/.uploads: each is locked by its server, so that the next one knows
which of them nobody will come back to.
"""

from __future__ import annotations

import secrets
import shutil
import time
from pathlib import Path

from ingest.places import OwnerLock

PLACE = ".uploads"
_STALE_S = 24 * 3600.0


def new_folder(runs: Path) -> tuple[Path, OwnerLock]:
    """A folder for one upload and its lock, which ends with the process; raises OSError."""
    place = runs / PLACE
    place.mkdir(exist_ok=True)
    remove_stale(runs)
    name = secrets.token_hex(8)
    unlocked = place / f"new-{name}"
    unlocked.mkdir()
    lock = OwnerLock(unlocked)
    lock.acquire()
    return unlocked.rename(place / f"up-{name}"), lock


def remove_stale(runs: Path) -> None:
    """Remove what killed servers left: folders whose lock is free, or not written to for a day."""
    for folder in (runs / PLACE).glob("*-*"):
        try:
            if _is_abandoned(folder) or time.time() - folder.stat().st_mtime > _STALE_S:
                shutil.rmtree(folder, ignore_errors=True)
        except OSError:  # another server was faster
            continue


def _is_abandoned(folder: Path) -> bool:
    """Whether it was locked once and is no more; raises OSError."""
    lock = OwnerLock(folder)
    if not folder.name.startswith("up-") or not lock.path.exists() or not lock.acquire():
        return False
    lock.release()
    return True
