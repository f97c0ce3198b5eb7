"""Objects below one prefix, through a file system of pyarrow: listed, fetched, put.

Every error of the storage becomes a sentence of this module, which repeats nothing that the storage
has answered but the name of the error: answers may hold parts of the request.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from pyarrow import ArrowException, NativeFile
from pyarrow.fs import FileInfo, FileSelector, FileSystem, FileType

from ingest.errors import UserError

_PIECE = 8 << 20
"""Bytes that are read or written at once: a request each when reading, a part when writing."""
_AWS_ERROR = re.compile(r"AWS Error ([A-Z_]+)(?: \(HTTP status ([0-9]{3})\))?")
_HINTS = {
    "NO_SUCH_BUCKET": "there is no such bucket; check the name, AWS_ENDPOINT_URL and AWS_REGION",
    "ACCESS_DENIED": "access is denied; check that credentials are set (AWS_ACCESS_KEY_ID and "
    "AWS_SECRET_ACCESS_KEY, or AWS_PROFILE) and may list, read and, for imports, write there",
    "NETWORK_CONNECTION": "no answer; check the network and AWS_ENDPOINT_URL",
    "SLOW_DOWN": "it answers that there are too many requests; it is tried again",
}
_DENIED = ("INVALID_ACCESS_KEY_ID", "SIGNATURE_DOES_NOT_MATCH", "INVALID_CLIENT_TOKEN_ID")
_DENIED_STATUS = ("401", "403")
_BUSY_STATUS = ("500", "502", "503", "504")


class StoreError(UserError):
    """The storage does not do what was asked."""


class Changed(Exception):
    """An object is gone, or was replaced while it was read: the next look sees what is there."""


@dataclass(frozen=True)
class StoredObject:
    """`key`: relative to what was listed; `changed_ns`: by the storage's clock, in whole s."""

    key: str
    num_bytes: int
    changed_ns: int

    @property
    def stamp(self) -> tuple[int, int]:
        """Differs where the object does."""
        return self.num_bytes, self.changed_ns


class ObjectStore:
    """`root`: path in the file system below which everything lies; `name`: what people call it."""

    def __init__(self, filesystem: FileSystem, root: str, name: str) -> None:
        self._filesystem = filesystem
        self._root = root.rstrip("/")
        self.name = name

    def path(self, *parts: str) -> str:
        """Path in the file system of something below the root."""
        return "/".join((self._root, *filter(None, parts)))

    @property
    def last_name(self) -> str:
        """Last part of the root."""
        return self._root.rpartition("/")[2]

    def folders(self) -> list[str]:
        """Names right below the root that have something below them; raises StoreError."""
        return [info.base_name for info in self._listing("") if info.type == FileType.Directory]

    def objects(self, under: str) -> list[StoredObject]:
        """All objects below a folder, however deep; raises StoreError."""
        begin = len(self.path(under)) + 1
        listing = self._listing(under, recursive=True)
        return [_stored(info, info.path[begin:]) for info in listing if info.is_file]

    def heads(self, keys: Sequence[str]) -> list[StoredObject | None]:
        """What is stored under each key, None where nothing is; raises StoreError."""
        with self._told("looked at"):
            infos = self._filesystem.get_file_info([self.path(key) for key in keys])
        return [
            _stored(info, key) if info.is_file else None
            for key, info in zip(keys, infos, strict=True)
        ]

    def fetch(self, key: str, num_bytes: int, into: Path) -> None:
        """Write an object to a new file, whole; raises Changed, StoreError, and OSError of the disk
        with the file's name.

        `num_bytes`: what it must have.
        """
        try:
            with self._opened(key) as source:
                before = self._version(source, key)
                with into.open("xb") as file:
                    self._copy(source, num_bytes, file)
            with self._opened(key) as source:
                after = self._version(source, key)
        except FileNotFoundError:
            raise Changed from None
        if before != after or before[0] != num_bytes:
            raise Changed

    def put(self, file: Path, key: str) -> None:
        """Store a file under a key; raises StoreError, and UserError where it cannot be read."""
        try:
            source = file.open("rb")
        except OSError as error:
            raise UserError(f"{file} cannot be read: {error.strerror}") from None
        with source:
            num_bytes = _require_readable(source, file)
            with self._told("written"), self._written(key) as target:
                while piece := source.read(_PIECE):
                    target.write(piece)
        head = self.heads([key])[0]
        if head is None or head.num_bytes != num_bytes:
            raise StoreError(f"{self.name} has not stored all of {key}; try again")

    @contextmanager
    def _opened(self, key: str) -> Iterator[NativeFile]:
        with self._told("read"):
            source = self._filesystem.open_input_stream(self.path(key))
        with source:
            yield source

    @contextmanager
    def _written(self, key: str) -> Iterator[NativeFile]:
        try:
            target = self._filesystem.open_output_stream(self.path(key))
        except FileNotFoundError as error:  # passes _told where something is read
            raise OSError(str(error)) from None
        with target:
            yield target

    def _version(self, source: NativeFile, key: str) -> tuple[int, object]:
        """Bytes of an object when it was opened, and what differs where its content does."""
        with self._told("read"):
            about = source.metadata() or {}
            tag, size = about.get("ETag"), about.get("Content-Length")
            if tag is not None and size is not None:
                return int(size), tag
            info = self._filesystem.get_file_info(self.path(key))
        return info.size if info.is_file else -1, info.mtime_ns

    def _copy(self, source: NativeFile, num_bytes: int, file: BinaryIO) -> None:
        left = num_bytes
        while left:
            with self._told("read"):
                piece = source.read(min(_PIECE, left))
            if not piece:
                raise Changed
            file.write(piece)
            left -= len(piece)

    def _listing(self, under: str, recursive: bool = False) -> list[FileInfo]:
        try:
            with self._told("listed"):  # `allow_not_found` would allow that there is no bucket
                chosen = FileSelector(self.path(under), recursive=recursive)
                return list(self._filesystem.get_file_info(chosen))
        except FileNotFoundError:
            return []

    @contextmanager
    def _told(self, what: str) -> Iterator[None]:
        """Errors of the storage as a sentence; FileNotFoundError passes."""
        try:
            yield
        except FileNotFoundError:
            raise
        except (OSError, ArrowException) as error:
            raise StoreError(f"{self.name} cannot be {what}: {_reason(error)}") from None


def _reason(error: Exception) -> str:
    """What went wrong, and what to do about it."""
    match = _AWS_ERROR.search(str(error))
    if match is None:
        reason = error.strerror if isinstance(error, OSError) else None
        return reason or "the storage does not answer as S3 does; check AWS_ENDPOINT_URL"
    kind, status = match.groups()
    if kind in _DENIED or status in _DENIED_STATUS:
        kind = "ACCESS_DENIED"
    if status in _BUSY_STATUS:
        kind = "SLOW_DOWN"
    answer = f"it answers {kind.lower().replace('_', ' ')}" + (f" ({status})" if status else "")
    return _HINTS.get(kind, f"{answer}; check the address, AWS_ENDPOINT_URL and AWS_REGION")


def _require_readable(source: BinaryIO, file: Path) -> int:
    """Bytes of a file, read once; raises UserError. An object that was begun cannot be abandoned in
    pyarrow: where reading fails then, half of it would get the name.
    """
    num_bytes = 0
    try:
        while piece := source.read(_PIECE):
            num_bytes += len(piece)
        source.seek(0)
    except OSError as error:
        raise UserError(f"{file} cannot be read: {error.strerror}") from None
    return num_bytes


def _stored(info: FileInfo, key: str) -> StoredObject:
    return StoredObject(key, info.size, info.mtime_ns or 0)
