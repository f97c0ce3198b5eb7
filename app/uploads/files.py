"""The files of one upload: a list of names and sizes, and one stream of bytes that fills them.

The stream is the contents of the files one after the other. The sizes on disk show how much of it
has arrived, so that no byte is lost or counted twice when a connection or the server ends at any
moment.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from app.uploads.errors import NoRoom, TooBig, no_room
from ingest.errors import UserError

DEFAULT_LIMIT_BYTES = 4 << 30
LIMIT_VARIABLE = "RANKSCOPE_MAX_UPLOAD_MB"
RESERVED_BYTES = 256 << 20
"""Free space that uploads leave on the disk."""
MAX_LIST_BYTES = 4 << 20
_MAX_FILES = 16_384
_GREATEST = 1 << 62
_MOST_FOLDERS = 8
_LONGEST_NAME_BYTES = 160
_LONGEST_NAME = 2000
_NOTES = (".yaml", ".yml", ".txt", ".log", ".md")
"""Suffixes of files that often accompany traces."""
_NOT_IN_NAMES = re.compile(r"[^\w.+=@() -]")


def limit_bytes() -> int:
    """Maximum size of one upload: RANKSCOPE_MAX_UPLOAD_MB or 4 GiB."""
    text = os.environ.get(LIMIT_VARIABLE, "")
    return int(text) << 20 if text.isdecimal() and int(text) else DEFAULT_LIMIT_BYTES


def free_bytes(folder: Path) -> int:
    """Free space on the disk of a folder; raises OSError."""
    return shutil.disk_usage(folder).free


def check_room(folder: Path, num_bytes: int) -> None:
    """Raise NoRoom if this many more bytes would leave too little space on the folder's disk."""
    try:
        free = free_bytes(folder)
    except OSError as error:
        raise no_room(error) from None
    if free - num_bytes < RESERVED_BYTES:
        raise NoRoom(
            f"the disk of the server has {free / 1e6:,.0f} MB free; this upload needs "
            f"{num_bytes / 1e6:,.0f} MB, and {RESERVED_BYTES / 1e6:,.0f} MB must stay free; make "
            "room there and continue"
        )


def safe_name(name: str) -> str:
    """A file's own name without folders, control characters or leading dots; never empty."""
    last = re.split(r"[/\\]", name)[-1]
    plain = _NOT_IN_NAMES.sub("_", last).strip(". ")
    while len(plain.encode()) > _LONGEST_NAME_BYTES:  # the suffix says the format: cut at the front
        plain = plain[1:].lstrip(". ")
    return plain or "file"


def safe_path(name: str) -> Path:
    """A relative path that cannot leave its folder; keeps the innermost folders."""
    parts = [part for part in re.split(r"[/\\]", name) if part.strip(". ")]
    return Path(*(safe_name(part) for part in parts[-_MOST_FOLDERS:] or [""]))


@dataclass(frozen=True)
class FileHead:
    """One file of the list; `name` may contain folders."""

    name: str
    num_bytes: int


def parse_list(entries: object, limit: int) -> list[FileHead]:
    """The list [{"name", "size"}, ...]; raises UserError if it is malformed, empty or too big."""
    try:
        heads = [FileHead(_displayable(e["name"]), e["size"]) for e in entries]  # type: ignore[attr-defined]
    except (ValueError, TypeError, KeyError):
        raise UserError(
            'the list of files is malformed; give {"files": [{"name", "size"}]}'
        ) from None
    if not heads or len(heads) > _MAX_FILES:
        raise UserError(
            f"an upload has 1 to {_MAX_FILES} files, this one {len(heads)}; put the files into an "
            "archive (tar, zip)"
        )
    for head in heads:
        is_whole = isinstance(head.num_bytes, int) and not isinstance(head.num_bytes, bool)
        if not is_whole or not 0 <= head.num_bytes < _GREATEST:
            raise UserError(f"the size of {head.name[:80]} is not a whole number of bytes")
    check_size(sum(head.num_bytes for head in heads), limit)
    return heads


def _displayable(name: object) -> str:
    """A name that can be displayed: file systems allow invalid UTF-8."""
    return str(name)[:_LONGEST_NAME].encode("utf-8", "replace").decode()


def parse_body(content: bytes, limit: int) -> list[FileHead]:
    """The list of files in the request that creates an upload; raises UserError."""
    try:
        body = json.loads(content)
    except (ValueError, RecursionError):
        body = None
    return parse_list(body.get("files") if isinstance(body, dict) else None, limit)


def check_size(num_bytes: int, limit: int) -> None:
    """Raise UserError for no bytes, TooBig beyond the limit."""
    if not num_bytes:
        raise UserError("these files are empty; choose trace files")
    if num_bytes > limit:
        raise TooBig(
            f"the upload has {num_bytes / 1e6:,.0f} MB, more than the {limit / 1e6:,.0f} MB "
            f"allowed here; use `rankscope import` on the server, or start it with {LIMIT_VARIABLE}"
        )


def run_name(heads: Sequence[FileHead]) -> str:
    """The run's name: the common folder of the files, else the first file that is not a note."""
    text = title(heads)
    traces = (h.name for h in heads if Path(h.name).suffix.lower() not in _NOTES)
    is_count = text == f"{len(heads)} files"
    return safe_name(next(traces, heads[0].name) if is_count else text)


def title(heads: Sequence[FileHead]) -> str:
    """The upload's title: its only file, the common folder of the files, else their number."""
    if len(heads) == 1:
        return heads[0].name
    tops = {re.split(r"[/\\]", head.name)[0] for head in heads}
    if len(tops) == 1:
        return tops.pop()
    return f"{len(heads)} files"


class Files:
    """The files of a list below `folder`, filled by `append`. Not thread-safe.

    Raises OSError, and UserError if the files that exist already are not the beginning of these.
    """

    def __init__(self, folder: Path, heads: Sequence[FileHead]) -> None:
        self.folder = folder
        self.heads = list(heads)
        self.relative_paths = _relative_paths(heads)
        self.num_bytes = sum(head.num_bytes for head in heads)
        self.offset = 0
        self._number, self._in_file = 0, 0
        folder.mkdir(exist_ok=True)
        self._read_offset()

    @property
    def is_whole(self) -> bool:
        """Whether all bytes have arrived."""
        return self.offset == self.num_bytes

    @property
    def paths(self) -> list[Path]:
        """What to import: the topmost files and folders, in the order of the list."""
        tops = dict.fromkeys(path.parts[0] for path in self.relative_paths)
        return [self.folder / top for top in tops]

    def append(self, content: bytes | bytearray) -> None:
        """The next bytes of the stream; raises TooBig beyond its end, NoRoom."""
        if self.offset + len(content) > self.num_bytes:
            raise TooBig("the upload is longer than its list of files says; send it again")
        check_room(self.folder, len(content))
        rest = memoryview(content)
        try:
            while len(rest):
                rest = rest[self._write(rest) :]
        except OSError as error:
            self._read_offset()
            raise no_room(error) from None

    def _write(self, content: memoryview) -> int:
        """Write to the current file and return the number of bytes written."""
        head = self.heads[self._number]
        with self._path(self._number).open("ab", buffering=0) as file:
            written = file.write(content[: head.num_bytes - self._in_file])
        self._in_file += written
        self.offset += written
        self._next_file()
        return written

    def _next_file(self) -> None:
        """Move to the next incomplete file and create the empty ones before it."""
        while self._in_file == self.heads[self._number].num_bytes:
            self._number, self._in_file = self._number + 1, 0
            if self._number == len(self.heads):
                return
            path = self._path(self._number)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch()

    def _path(self, number: int) -> Path:
        return self.folder / self.relative_paths[number]

    def _read_offset(self) -> None:
        """Read from the disk how much has arrived."""
        sizes = [self._size(number) for number in range(len(self.heads))]
        wanted = [head.num_bytes for head in self.heads]
        full = next((i for i, size in enumerate(sizes) if size != wanted[i]), len(sizes))
        beyond = [i for i in range(full + 1, len(sizes)) if (sizes[i] or 0) > 0]
        if beyond or (full < len(sizes) and (sizes[full] or 0) > wanted[full]):
            raise UserError("the received part of this upload is damaged; send it again")
        self._number, self._in_file = full, 0
        self.offset = sum(wanted[:full])
        if full < len(sizes):
            self._in_file = sizes[full] or 0
            self.offset += self._in_file
            self._path(full).parent.mkdir(parents=True, exist_ok=True)
            self._path(full).touch()
            self._next_file()

    def _size(self, number: int) -> int | None:
        path = self._path(number)
        return path.stat().st_size if path.is_file() and not path.is_symlink() else None


def _relative_paths(heads: Sequence[FileHead]) -> list[Path]:
    """Keep the names, which may contain ranks; duplicates get their own folder."""
    files: set[Path] = set()
    folders: set[Path] = set()
    relative_paths = []
    for number, head in enumerate(heads):
        path = safe_path(head.name)
        if path in files or path in folders or not files.isdisjoint(path.parents):
            path = Path(f"again~{number}") / path.name  # no safe name has a tilde
        files.add(path)
        folders.update(path.parents)
        relative_paths.append(path)
    return relative_paths
