"""What lies in a run folder, and nothing that a link below it leads to.

A run folder may come from anywhere, and a job may write into it as another user than the one who
reads it. The folder itself may be a link, which only the operator can have made in the folder of
runs; no link below it is followed: a folder that is one keeps the run from being read, a file that
is one is set aside.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from stat import S_ISLNK, S_ISREG

from ingest.errors import UserError

DATA = ("segments", "compacted")
"""Folders of a run that hold its tables."""
_FOLDERS = (*DATA, "ranks")
MOST_FOLDERS = 100
"""In the folder of an index, which makes a handful."""
RECEIVING = ("attempts", "incoming", "received", "quarantine")
"""Folders of a run into which a server writes for ranks on other disks."""
UNPACKED = "unpacked"
"""Folder next to an index in the cache: segments of the bundles of a run that may only be read."""
_DATA_PATH = re.compile(rf"({'|'.join((*DATA, UNPACKED))})/[^/\0]+\.parquet")


class Linked(OSError):
    """A file that is a link."""

    def __init__(self) -> None:
        super().__init__("it is a link, and links below a run folder are not followed")


def require_no_links(run_folder: Path, *more: str) -> None:
    """Raise UserError where one of the folders of a run is a link; `more`: folders in addition to
    those that are read.
    """
    for name in (*_FOLDERS, *more):
        if (run_folder / name).is_symlink():
            raise UserError(
                f"{run_folder / name} is a link, and links below a run folder are not followed; "
                "put the files themselves there, or make the whole run folder a link"
            )


def plain_file(path: Path) -> os.stat_result:
    """Size and times of a regular file; raises OSError for anything else, Linked for a link."""
    state = path.lstat()
    if S_ISLNK(state.st_mode):
        raise Linked
    if not S_ISREG(state.st_mode):
        raise OSError("it is not a file")
    return state


def read_plain_file(path: Path, most_bytes: int) -> bytes:
    """All of a regular file; raises OSError, also for one that is greater, Linked for a link.

    What is read is what was looked at, whatever takes its name meanwhile.
    """
    plain_file(path)
    number = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    with os.fdopen(number, "rb") as file:
        state = os.fstat(number)
        if not S_ISREG(state.st_mode):
            raise OSError("it is not a file")
        if state.st_size > most_bytes:
            raise OSError(f"it has {state.st_size} bytes")
        return file.read(most_bytes)


def write_new_file(path: Path, data: bytes) -> None:
    """Write a file, replacing whatever has its name, a link included; raises OSError."""
    path.unlink(missing_ok=True)
    with path.open("xb") as file:  # fails where a link has taken the name meanwhile
        file.write(data)


def readable(path: str) -> str:
    """The path of a regular file; raises UserError where a link or a pipe has taken its place.

    One that is gone is left to its reader.
    """
    try:
        plain_file(Path(path))
    except FileNotFoundError:
        pass
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error}; replace it by a regular file") from error
    return path


def listed(folder: Path, ending: str) -> Iterator[os.DirEntry[str]]:
    """What has this ending in a folder of a run, hidden files left out; raises OSError.

    A folder that is a link, or is not there, has nothing in it.
    """
    if folder.is_symlink():
        return
    try:
        listing = os.scandir(folder)
    except (FileNotFoundError, NotADirectoryError):
        return
    with listing:
        yield from (file for file in listing if file.name.endswith(ending) and file.name[0] != ".")


def data_file(run_folder: Path, index_folder: Path, path: str) -> Path:
    """The file that a manifest means by a path."""
    return (index_folder if path.startswith(f"{UNPACKED}/") else run_folder) / path


def is_data_path(path: str) -> bool:
    """Whether a path in a manifest names a file right in one of the folders of data.

    The index of a run lies in its folder, too: what it names may lead anywhere.
    """
    return _DATA_PATH.fullmatch(path) is not None


def has_links(folder: Path) -> bool:
    """Whether a folder is a link, or holds one or more folders than MOST_FOLDERS; raises OSError.

    Folders that others remove meanwhile had none.
    """
    if folder.is_symlink():
        return True
    left, num_folders = [str(folder)], 0
    while left:
        num_folders += 1
        try:
            with os.scandir(left.pop()) as listing:
                entries = list(listing)
        except FileNotFoundError:
            if num_folders == 1:
                raise
            continue
        if num_folders > MOST_FOLDERS or any(entry.is_symlink() for entry in entries):
            return True
        left += [entry.path for entry in entries if entry.is_dir(follow_symlinks=False)]
    return False
