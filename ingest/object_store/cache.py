"""The folder that holds the mirrors of a bucket's runs, kept within a size.

What goes is a whole run, the one that was not used for longest; it is fetched again when somebody
opens it. Runs in use stay.
"""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from ingest.errors import UserError, disk_error
from ingest.index.deletion import REMOVED, delete_leftovers
from ingest.index.snapshots import OwnerLock
from ingest.object_store.mirrored_run import MIRROR


def cache_folder(name: str, endpoint: str) -> Path:
    """Folder of this user for the runs of a bucket; it may not exist."""
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    key = hashlib.sha256(f"{endpoint} {name}".encode()).hexdigest()[:20]
    return base / "rankscope" / "buckets" / key


class Cache:
    """`runs`: the folder of run folders. Safe from many threads; one process at a time."""

    def __init__(self, folder: Path, most_bytes: float, is_in_use: Callable[[str], bool]) -> None:
        """Raises UserError where another process has the folder, or it cannot be written."""
        self.runs = folder / "runs"
        self.most_bytes = most_bytes
        self._is_in_use = is_in_use
        self._will_have: dict[str, int] = {}
        self._lock = threading.Lock()
        self._owner = OwnerLock(folder)
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)  # the bucket is not for others
            self.runs.mkdir(exist_ok=True)
            if not self._owner.acquire():
                raise UserError(
                    f"another server mirrors the same bucket into {folder}; stop it, or set "
                    "XDG_CACHE_HOME to another folder for this one"
                )
            delete_leftovers(self.runs)
        except OSError as error:
            raise disk_error(str(folder), error) from error

    def close(self) -> None:
        """Let other processes have the folder."""
        self._owner.release()

    def names(self) -> list[str]:
        """Names of the runs of which anything is here, least recently used first."""
        found = []
        for folder in self.runs.iterdir():
            with suppress(OSError):  # it is being deleted, or is no run of a bucket
                found.append(((folder / MIRROR).stat().st_mtime_ns, folder.name))
        return [name for _, name in sorted(found) if not name.startswith(".")]

    def make_room(self, name: str, num_bytes: int) -> None:
        """Delete runs until there is room for more bytes of one run, and keep that room until it is
        asked for again. Raises UserError where runs in use have it, and OSError.

        With an empty name it only makes up for what has grown.
        """
        with self._lock:
            self._will_have.pop(name, None)
            if name and not num_bytes:
                self._note_use(name)
                return
            sizes = {other: _num_bytes(self.runs / other) for other in self.names()}
            held = {
                n: max(sizes.get(n, 0), self._will_have.get(n, 0))
                for n in {*sizes, *self._will_have}
            }
            too_much = sum(held.values()) + num_bytes - self.most_bytes
            going = [other for other in sizes if other != name and not self._is_in_use(other)]
            if too_much > sum(held[other] for other in going):
                raise UserError(
                    f"the cache of {_size(self.most_bytes)} is {_size(too_much)} too small for the "
                    "runs in use; give a greater --cache-size, or close the pages of some runs for "
                    "ten minutes"
                )
            while too_much > 0:
                too_much -= held[going[0]]
                self.delete(going.pop(0))
            if num_bytes:
                self._will_have[name] = sizes.get(name, 0) + num_bytes
            self._note_use(name)

    def _note_use(self, name: str) -> None:
        with suppress(OSError):  # nothing of it is here yet
            os.utime(self.runs / name / MIRROR)

    def delete(self, name: str) -> None:
        """Delete what is here of a run, under a hidden name first; raises OSError."""
        delete_leftovers(self.runs)
        with suppress(FileNotFoundError):
            (self.runs / name).rename(self.runs / f"{REMOVED}{name}")
        delete_leftovers(self.runs)
        self._will_have.pop(name, None)


def _size(num_bytes: float) -> str:
    """A size in words.

    >>> _size(12_345_678)
    '12.3 MB'
    """
    return f"{num_bytes / 1e9:.3g} GB" if num_bytes >= 1e9 else f"{num_bytes / 1e6:.3g} MB"


def _num_bytes(folder: Path) -> int:
    """Bytes of all files below a folder in which others write and delete."""
    total, left = 0, [str(folder)]
    while left:
        with suppress(OSError), os.scandir(left.pop()) as listing:
            for entry in listing:
                with suppress(OSError):
                    if entry.is_dir(follow_symlinks=False):
                        left.append(entry.path)
                    else:
                        total += entry.stat(follow_symlinks=False).st_size
    return total
