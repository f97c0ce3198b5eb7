"""The files of one upload: a list of names and sizes, and one stream of bytes that fills them.

The stream is the contents of the files one after the other. How much of it has come is what lies on
disk, so that nothing is lost or counted twice when a connection, or the server, ends at any moment.
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
KEPT_FREE_BYTES = 256 << 20
"""Room on the disk that uploads leave to everything else."""
MAX_LIST_BYTES = 4 << 20
_MAX_FILES = 16_384
_GREATEST = 1 << 62
_MOST_FOLDERS = 8
_LONGEST_NAME_BYTES = 160
_LONGEST_TOLD = 2000
_NOTES = (".yaml", ".yml", ".txt", ".log", ".md")
"""Endings of what lies beside traces."""
_NOT_IN_NAMES = re.compile(r"[^\w.+=@() -]")


def limit_bytes() -> int:
    """How much one upload may have, by RANKSCOPE_MAX_UPLOAD_MB or 4 GiB."""
    text = os.environ.get(LIMIT_VARIABLE, "")
    return int(text) << 20 if text.isdecimal() and int(text) else DEFAULT_LIMIT_BYTES


def free_bytes(folder: Path) -> int:
    """What may still be written to the disk of a folder; raises OSError."""
    return shutil.disk_usage(folder).free


def check_room(folder: Path, num_bytes: int) -> None:
    """Raise NoRoom where so many more bytes would leave too little of the folder's disk."""
    try:
        free = free_bytes(folder)
    except OSError as error:
        raise no_room(error) from None
    if free - num_bytes < KEPT_FREE_BYTES:
        raise NoRoom(
            f"the disk of the server has {free / 1e6:,.0f} MB free, too little for "
            f"{num_bytes / 1e6:,.0f} MB more and {KEPT_FREE_BYTES / 1e6:,.0f} MB to spare; "
            "make room there and go on"
        )


def safe_name(name: str) -> str:
    """A file's own name without folders, control characters or a dot in front; never empty."""
    last = re.split(r"[/\\]", name)[-1]
    plain = _NOT_IN_NAMES.sub("_", last).strip(". ")
    while len(plain.encode()) > _LONGEST_NAME_BYTES:  # endings say the format: cut in front
        plain = plain[1:].lstrip(". ")
    return plain or "file"


def safe_place(name: str) -> Path:
    """A relative path below no other folder than its own; the innermost folders are kept."""
    parts = [part for part in re.split(r"[/\\]", name) if part.strip(". ")]
    return Path(*(safe_name(part) for part in parts[-_MOST_FOLDERS:] or [""]))


@dataclass(frozen=True)
class FileHead:
    """One file of the list; `name` may hold folders."""

    name: str
    num_bytes: int


def parse_list(entries: object, limit: int) -> list[FileHead]:
    """The list [{"name", "size"}, ...]; raises UserError: damaged, empty or too big."""
    try:
        heads = [FileHead(_told(e["name"]), e["size"]) for e in entries]  # type: ignore[attr-defined]
    except (ValueError, TypeError, KeyError):
        raise UserError(
            'the list of files is damaged; give {"files": [{"name", "size"}]}'
        ) from None
    if not heads or len(heads) > _MAX_FILES:
        raise UserError(f"an upload has 1 to {_MAX_FILES} files, this one {len(heads)}")
    for head in heads:
        is_whole = isinstance(head.num_bytes, int) and not isinstance(head.num_bytes, bool)
        if not is_whole or not 0 <= head.num_bytes < _GREATEST:
            raise UserError(f"the size of {head.name[:80]} is not a whole number of bytes")
    check_size(sum(head.num_bytes for head in heads), limit)
    return heads


def _told(name: object) -> str:
    """A name as it can be shown: file systems know halves of characters."""
    return str(name)[:_LONGEST_TOLD].encode("utf-8", "replace").decode()


def parse_body(content: bytes, limit: int) -> list[FileHead]:
    """The list of the request that begins an upload; raises UserError."""
    try:
        told = json.loads(content)
    except (ValueError, RecursionError):
        told = None
    return parse_list(told.get("files") if isinstance(told, dict) else None, limit)


def check_size(num_bytes: int, limit: int) -> None:
    """Raise UserError for nothing, TooBig beyond the limit."""
    if not num_bytes:
        raise UserError("these files are empty; choose trace files")
    if num_bytes > limit:
        raise TooBig(
            f"the upload has {num_bytes / 1e6:,.0f} MB, more than the {limit / 1e6:,.0f} MB taken "
            f"here; use `rankscope import` on the server, or start it with {LIMIT_VARIABLE}"
        )


def run_name(heads: Sequence[FileHead]) -> str:
    """What its run is called: the folder all came from, else the first file that is no note."""
    told = title(heads)
    named = (h.name for h in heads if Path(h.name).suffix.lower() not in _NOTES)
    is_counted = told == f"{len(heads)} files"
    return safe_name(next(named, heads[0].name) if is_counted else told)


def title(heads: Sequence[FileHead]) -> str:
    """What it is called: its one file, the folder all came from, else how many there are."""
    if len(heads) == 1:
        return heads[0].name
    tops = {re.split(r"[/\\]", head.name)[0] for head in heads}
    if len(tops) == 1:
        return tops.pop()
    return f"{len(heads)} files"


class Files:
    """The files of a list below `folder`, filled by `append`. Not thread-safe.

    Raises UserError where what lies there already is not the beginning of these files, OSError.
    """

    def __init__(self, folder: Path, heads: Sequence[FileHead]) -> None:
        self.folder = folder
        self.heads = list(heads)
        self.places = _places(heads)
        self.num_bytes = sum(head.num_bytes for head in heads)
        self.offset = 0
        self._number, self._in_file = 0, 0
        folder.mkdir(exist_ok=True)
        self._look()

    @property
    def is_whole(self) -> bool:
        """Whether all bytes have come."""
        return self.offset == self.num_bytes

    @property
    def paths(self) -> list[Path]:
        """What to import: the topmost files and folders, in the order of the list."""
        return [self.folder / top for top in dict.fromkeys(place.parts[0] for place in self.places)]

    def append(self, content: bytes | bytearray) -> None:
        """The next bytes of the stream; raises TooBig beyond its end, NoRoom."""
        if self.offset + len(content) > self.num_bytes:
            raise TooBig("the upload is longer than its list of files says; send it anew")
        check_room(self.folder, len(content))
        rest = memoryview(content)
        try:
            while len(rest):
                rest = rest[self._write(rest) :]
        except OSError as error:
            self._look()
            raise no_room(error) from None

    def _write(self, content: memoryview) -> int:
        """Write to the file at hand and return how much of it."""
        head = self.heads[self._number]
        with self._path(self._number).open("ab", buffering=0) as file:
            written = file.write(content[: head.num_bytes - self._in_file])
        self._in_file += written
        self.offset += written
        self._go_on()
        return written

    def _go_on(self) -> None:
        """To the next file that lacks bytes; empty ones are made in passing."""
        while self._in_file == self.heads[self._number].num_bytes:
            self._number, self._in_file = self._number + 1, 0
            if self._number == len(self.heads):
                return
            path = self._path(self._number)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch()

    def _path(self, number: int) -> Path:
        return self.folder / self.places[number]

    def _look(self) -> None:
        """Take from the disk how much has come."""
        sizes = [self._size(number) for number in range(len(self.heads))]
        wanted = [head.num_bytes for head in self.heads]
        full = next((i for i, size in enumerate(sizes) if size != wanted[i]), len(sizes))
        beyond = [i for i in range(full + 1, len(sizes)) if (sizes[i] or 0) > 0]
        if beyond or (full < len(sizes) and (sizes[full] or 0) > wanted[full]):
            raise UserError("what is left of this upload is damaged; send it anew")
        self._number, self._in_file = full, 0
        self.offset = sum(wanted[:full])
        if full < len(sizes):
            self._in_file = sizes[full] or 0
            self.offset += self._in_file
            self._path(full).parent.mkdir(parents=True, exist_ok=True)
            self._path(full).touch()
            self._go_on()

    def _size(self, number: int) -> int | None:
        path = self._path(number)
        return path.stat().st_size if path.is_file() and not path.is_symlink() else None


def _places(heads: Sequence[FileHead]) -> list[Path]:
    """Names stay as they are, ranks are read off them; doubles get a folder of their own."""
    files: set[Path] = set()
    folders: set[Path] = set()
    places = []
    for number, head in enumerate(heads):
        place = safe_place(head.name)
        if place in files or place in folders or not files.isdisjoint(place.parents):
            place = Path(f"again~{number}") / place.name  # no safe name has a tilde
        files.add(place)
        folders.update(place.parents)
        places.append(place)
    return places
