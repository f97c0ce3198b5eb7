"""Deletes a whole run: under a hidden name first, so that nobody ever sees a part of one."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from stat import S_ISREG
from typing import Any

from ingest.index.index_lock import IndexLock
from ingest.index.indexer import Busy
from ingest.index.snapshots import index_folder
from ingest.run_folder.pins import PINS_FILE, Pin, read_pins
from ingest.run_folder.retention_file import RETENTION_FILE
from ingest.run_folder.run_files import is_run_folder

REMOVED = ".removed-"
"""How the hidden name of a run begins that is being deleted."""
_OWN = re.compile(
    r"(run|layout|retention|pins|watchdog-.*)\.json|job-secret(\.sha256)?|watched|job\.log|ranks"
    r"|segments|compacted|index|rings|stacks|stacks\.request|kernels|attempts|agents"
    r"|incoming|received|quarantine"
)
"""Names in a run folder (docs/data-model.md)."""
_UNFINISHED = re.compile(r"\.(?P<name>.+)\.[0-9a-f]+\.tmp|\.nfs[0-9a-f]+")
"""Names of files that are being written, and of those that NFS keeps while they are open."""
_OF_READERS = ("index", "compacted", PINS_FILE, RETENTION_FILE)
"""What is written into a run folder by those who index the run and bound it, not by a job."""


class InUse(Exception):
    """Something has been written into a run folder, or pinned, that must not be deleted."""


def foreign_name(run_folder: Path) -> str:
    """Name of something in a run folder that is not of a run, such as a checkpoint; else empty."""
    paths = sorted(run_folder.iterdir())
    return next((path.name for path in paths if not _is_own(path)), "")


def _is_own(path: Path) -> bool:
    """Whether something in a run folder is of the run."""
    unfinished = _UNFINISHED.fullmatch(path.name)
    if unfinished is None:
        return _OWN.fullmatch(path.name) is not None
    of = unfinished["name"]
    return S_ISREG(path.lstat().st_mode) and (of is None or _OWN.fullmatch(of) is not None)


def written_ns(run_folder: Path) -> int:
    """When the newest file of a run was written, Unix ns, by the clock of its disk; files that
    indexing makes do not count. Raises OSError.
    """
    return max(_times(str(run_folder), _OF_READERS), default=0)


def _times(folder: str, without: Sequence[str] = ()) -> Iterator[int]:
    with os.scandir(folder) as listing:
        entries = [entry for entry in listing if entry.name not in without]
    for entry in entries:
        try:
            if entry.is_dir(follow_symlinks=False):
                yield from _times(entry.path)
            else:
                yield entry.stat(follow_symlinks=False).st_mtime_ns
        except FileNotFoundError:  # it got another name, or was merged
            continue


def delete_run(run_folder: Path, before_ns: float, pins: Sequence[Pin]) -> None:
    """Delete a run with everything in its folder, if nothing in it was written since `before_ns`
    and its pins are still those.

    Raises InUse where it is not so, Busy where another process indexes the run, UserError where its
    pins cannot be read, and OSError where it cannot be deleted; what is left of it then goes with
    `delete_leftovers`.
    """
    with IndexLock(index_folder(run_folder)) as lock:
        if not lock.acquire():
            raise Busy(f"another process is indexing {run_folder}")
        is_same = read_pins(run_folder) == list(pins) and not foreign_name(run_folder)
        if not is_same or written_ns(run_folder) >= before_ns:
            raise InUse(f"{run_folder} is in use")
        hidden = run_folder.with_name(f"{REMOVED}{run_folder.name}")
        _delete_folder(hidden)
        run_folder.rename(hidden)
        _delete_folder(hidden)


def _delete_folder(folder: Path) -> None:
    """Delete a folder that another process may be deleting, too, or has; raises OSError."""

    def check(_function: Callable[..., object], _path: str, raised: tuple[Any, Any, Any]) -> None:
        if not isinstance(raised[1], FileNotFoundError):
            raise raised[1]

    shutil.rmtree(folder, onerror=check)


def delete_leftovers(runs: Path) -> list[str]:
    """Delete what is left of runs whose deletion was interrupted; their names. Raises OSError."""
    if is_run_folder(runs):
        return []
    names = []
    for hidden in runs.glob(f"{REMOVED}*"):
        if hidden.is_dir() and not hidden.is_symlink():
            _delete_folder(hidden)
            names.append(hidden.name.removeprefix(REMOVED))
    return names
