"""Where the index of a run lies, and how it is published to its readers."""

from __future__ import annotations

import errno
import fcntl
import hashlib
import json
import os
import shutil
import time
from pathlib import Path

from ingest.errors import UserError
from ingest.query.index_catalog import SETUP
from ingest.run_folder.run_paths import DATA, has_links
from trace_hooks.schema import SCHEMA_VERSION, publish_json

_RULES = 2
"""Goes up when rollups mean something else than before; an older index is simply built again."""

INDEX_VERSION = f"{_RULES}-{hashlib.sha256(f'{SETUP}{SCHEMA_VERSION}'.encode()).hexdigest()[:8]}"
"""An index of an older schema takes files for whole that lack columns of this one."""

DATABASE = f"index-{INDEX_VERSION}.duckdb"
_POINTER = f"snapshot-{INDEX_VERSION}.json"
_LOOKED = f"looked-{INDEX_VERSION}.json"
LOCK = "lock"
_NO_LOCKS = (errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP, errno.EINVAL)
"""What flock answers where a file system does not lock, or its file server does not."""
_KEPT = 2
"""Published snapshots kept, so that a reader who has just read the pointer still finds its file."""


def _cache_folder(run_folder: Path) -> Path:
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    key = hashlib.sha256(str(run_folder.resolve()).encode()).hexdigest()[:20]
    return base / "rankscope" / "index" / key


def index_folder(run_folder: Path) -> Path:
    """Folder of a run's index, made if need be: index/ in the run, else in the user's cache; also
    where the index in the run is another user's, whose lock can only be read.

    Raises UserError where neither can be written.
    """
    own = run_folder / "index"
    try:
        own.mkdir(exist_ok=True)
        lock = own / LOCK
        places = (own, run_folder, *([lock] if lock.exists() else []))
        can_be_written = all(os.access(place, os.W_OK) for place in places)
        if can_be_written and not has_links(own):  # else it would lead elsewhere
            return own
    except OSError:  # read-only, or something else of that name: the cache serves as well
        pass
    cached = _cache_folder(run_folder)
    try:
        cached.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(
            f"the index of {run_folder} cannot be stored: neither that folder nor {cached} can be "
            f"written ({error.strerror}); set XDG_CACHE_HOME to a folder that can"
        ) from None
    return cached


class OwnerLock:
    """The right to write a run's index: one process at a time, given back when it dies."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / LOCK
        self._file: int | None = None

    def acquire(self) -> bool:
        """Take the lock if it is free. Raises UserError where the file system has no locks."""
        file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o644)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(file)
            if error.errno not in _NO_LOCKS:
                return False
            raise UserError(
                f"{self.path} cannot be locked ({error.strerror}), so two servers might write "
                "there at once; mount this file system with locks (Lustre: the option flock), or "
                "let the server only read the run folder: its index then goes to the user's cache"
            ) from error
        self._file = file
        return True

    def release(self) -> None:
        """Give it back."""
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def __enter__(self) -> OwnerLock:
        return self

    def __exit__(self, *error: object) -> None:
        self.release()


def publish_snapshot(folder: Path, database: Path, state: str) -> Path:
    """Copy a checkpointed database under a new name and point readers to it; `state` names it.

    Each snapshot has a name of its own: DuckDB keeps one instance per path and process, so a
    process that has the old one open would still see it under the same name. The names sort by
    age also where the clock was set back. Raises OSError, and leaves nothing behind then.
    """
    stem = f"snapshot-{INDEX_VERSION}-"
    newest_ns = max((_number(path, stem) for path in folder.glob(f"{stem}*.duckdb")), default=0)
    name = f"{stem}{max(time.time_ns(), newest_ns + 1)}.duckdb"
    temporary = folder / f".{name}.tmp"
    try:
        _copy(database, temporary)
        temporary.replace(folder / name)
    finally:  # on a full disk each try would leave another part of one
        temporary.unlink(missing_ok=True)
    publish_json({"snapshot": name, "state": state}, folder / _POINTER)
    for old in sorted(folder.glob(f"{stem}*.duckdb"))[:-_KEPT]:
        old.unlink(missing_ok=True)
    return folder / name


def _copy(source: Path, target: Path) -> None:
    """Copy a file; where the file system can, the copy shares its blocks until one is changed."""
    try:
        with source.open("rb") as read, target.open("wb") as written:
            left = os.fstat(read.fileno()).st_size
            while left and (copied := os.copy_file_range(read.fileno(), written.fileno(), left)):
                left -= copied
        if not left:
            return
    except OSError:  # refused in one of many ways; a disk that is full refuses the next, too
        pass
    shutil.copyfile(source, target)


def _number(snapshot: Path, stem: str) -> int:
    """When a snapshot was published, in ns, by its name; 0 for any other file."""
    digits = snapshot.stem.removeprefix(stem)
    return int(digits) if digits.isascii() and digits.isdecimal() and len(digits) < 20 else 0


def _pointer(folder: Path) -> tuple[Path, str] | None:
    try:
        data = json.loads((folder / _POINTER).read_text(encoding="utf-8"))
        path, state = folder / str(data["snapshot"]), str(data["state"])
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return (path, state) if path.parent == folder and path.is_file() else None


def discard_published(folder: Path) -> None:
    """Forget the published snapshot, so that the index is made again."""
    (folder / _POINTER).unlink(missing_ok=True)
    (folder / _LOOKED).unlink(missing_ok=True)


def current_snapshot(folder: Path) -> Path | None:
    """The snapshot published last, None before the first."""
    pointer = _pointer(folder)
    return pointer[0] if pointer else None


def published_state(folder: Path) -> str | None:
    """The state of the index that was published last, None before the first."""
    pointer = _pointer(folder)
    return pointer[1] if pointer else None


_WATCHED = (*DATA, "ranks", "quarantine", "run.json", "layout.json", "retention.json")
_SETTLED_NS = 1_000_000_000
"""A folder changed longer ago than this will not change again with the same time stamp."""


def look(run_folder: Path) -> dict[str, int]:
    """When each folder of a run changed last; taken before it is listed."""
    seen = {}
    for name in _WATCHED:
        try:
            seen[name] = (run_folder / name).lstat().st_mtime_ns
        except OSError:
            continue
    return seen


def remember_look(folder: Path, seen: dict[str, int]) -> None:
    """Note that all there was at that look is in the published snapshot.

    A look that may miss a change is not kept, nor is the one before it: the folder can look again
    as it did then, as after layout.json was written and deleted.
    """
    path = folder / _LOOKED
    if seen == _remembered(folder):
        return
    if time.time_ns() - max(seen.values(), default=0) > _SETTLED_NS:
        publish_json(seen, path)
    else:
        path.unlink(missing_ok=True)


def is_up_to_date(folder: Path, run_folder: Path) -> bool:
    """Whether nothing has changed in the run folder since the published snapshot's look at it."""
    return current_snapshot(folder) is not None and look(run_folder) == _remembered(folder)


def _remembered(folder: Path) -> object:
    try:
        return json.loads((folder / _LOOKED).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None


def remove_leftovers(folder: Path) -> None:
    """Remove what a killed owner left half-written; call with the lock held."""
    for path in folder.glob(".*.tmp"):
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)
