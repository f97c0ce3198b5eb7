"""Folders of uploads, RUNS/.uploads/up-ID: the list of files, and the files received so far.

The server locks each of its folders. When a server has ended, the next one can take over its
uploads; an upload that received no byte for a day (RANKSCOPE_UPLOAD_KEEP_HOURS) is removed.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import shutil
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path

from app.uploads.errors import no_room
from app.uploads.files import FileHead, Files, parse_list
from ingest.errors import UserError
from ingest.index.snapshots import OwnerLock
from trace_hooks.schema import publish_json

UPLOADS_FOLDER = ".uploads"
KEEP_VARIABLE = "RANKSCOPE_UPLOAD_KEEP_HOURS"
_KEEP_HOURS = 24.0
_LIST, _FILES, _TRIES = "upload.json", "files", "tries"
_PREFIX = "up-"
_ID_BYTES = 16
_ID = re.compile(rf"[0-9a-f]{{{2 * _ID_BYTES}}}")


def keep_s() -> float:
    """Seconds without a byte after which an upload is removed."""
    with suppress(ValueError):
        hours = float(os.environ.get(KEEP_VARIABLE, ""))
        if hours > 0:
            return hours * 3600.0
    return _KEEP_HOURS * 3600.0


class UploadFolder:
    """One upload's folder, locked by this server."""

    def __init__(
        self, folder: Path, lock: OwnerLock, heads: Sequence[FileHead], token: str = ""
    ) -> None:
        """`token`: digest of the token that the upload counts for, '' without one."""
        self.folder = folder
        self.token = token
        self._lock = lock
        self.files = Files(folder / _FILES, heads)

    @property
    def id(self) -> str:
        """Random; a client that knows it may continue the upload."""
        return self.folder.name.removeprefix(_PREFIX)

    @property
    def tries(self) -> int:
        """Number of imports of these files during which the server ended."""
        try:
            return int((self.folder / _TRIES).read_text(encoding="ascii"))
        except (OSError, ValueError):
            return 0

    @tries.setter
    def tries(self, number: int) -> None:
        (self.folder / _TRIES).write_text(str(number), encoding="ascii")

    def age_s(self) -> float:
        """Seconds since the last byte arrived."""
        return time.time() - _newest_s(self.folder)

    def release(self) -> None:
        """Unlock it for the next server."""
        self._lock.release()

    def remove(self) -> None:
        """Delete the folder and release the lock."""
        shutil.rmtree(self.folder, ignore_errors=True)
        self._lock.release()


def new_folder(runs: Path, heads: Sequence[FileHead], token: str = "") -> UploadFolder:
    """A locked folder for an upload of these files; raises NoRoom if it cannot be created."""
    content = {"files": [asdict(head) for head in heads], "token": token}
    uploads = runs / UPLOADS_FOLDER
    name = secrets.token_hex(_ID_BYTES)
    try:
        uploads.mkdir(exist_ok=True)
        unlocked = uploads / f"new-{name}"
        unlocked.mkdir(mode=0o700)
        publish_json(content, unlocked / _LIST)
        lock = OwnerLock(unlocked)
        lock.acquire()
        return UploadFolder(unlocked.rename(uploads / f"{_PREFIX}{name}"), lock, heads, token)
    except OSError as error:
        raise no_room(error) from None


def taken_over(runs: Path, upload_id: str) -> UploadFolder | None:
    """An upload that an ended server left; None if there is none or another server has it.

    A damaged upload cannot be continued and is removed.
    """
    folder = runs / UPLOADS_FOLDER / f"{_PREFIX}{upload_id}"
    if not _ID.fullmatch(upload_id) or not folder.is_dir():
        return None
    lock = OwnerLock(folder)
    try:
        if not lock.acquire():
            return None
        content = json.loads((folder / _LIST).read_text(encoding="utf-8"))
        heads = [{"name": e["name"], "size": e["num_bytes"]} for e in content["files"]]
        token = str(content.get("token", ""))
        return UploadFolder(folder, lock, parse_list(heads, sum(e["size"] for e in heads)), token)
    except (OSError, ValueError, TypeError, KeyError, UserError):
        shutil.rmtree(folder, ignore_errors=True)
        lock.release()
        return None


def left_ids(runs: Path) -> list[str]:
    """Ids of all uploads on disk, including other servers'."""
    return [path.name.removeprefix(_PREFIX) for path in (runs / UPLOADS_FOLDER).glob(f"{_PREFIX}*")]


def remove_litter(runs: Path, older_than_s: float) -> None:
    """Remove what servers left behind that were killed while creating a folder or importing."""
    for folder in _litter(runs):
        with suppress(OSError):  # another server was faster
            if time.time() - _newest_s(folder) > older_than_s:
                shutil.rmtree(folder, ignore_errors=True)


def _litter(runs: Path) -> Iterator[Path]:
    yield from (runs / UPLOADS_FOLDER).glob("new-*")
    yield from runs.glob(".import-*")


def _newest_s(folder: Path) -> float:
    """When something in the folder was last written; raises OSError."""
    newest = folder.stat().st_mtime
    for path in folder.rglob("*"):
        with suppress(OSError):  # removed meanwhile
            newest = max(newest, path.stat().st_mtime)
    return newest
