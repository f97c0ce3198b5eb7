"""What a user points at, as a stream of files: single files, folders, tar archives, gzip inside.

Everything is read forward only and in pieces, so that an archive is never unpacked to disk and
memory stays flat. A damaged gzip ends early and says where; it raises nothing.
"""

from __future__ import annotations

import re
import tarfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

from isal import isal_zlib

from ingest.errors import UserError

HEAD_BYTES = 1 << 20
"""How much of a file may be looked at to say what it is."""
_PIECE_BYTES = 1 << 14
"""Compressed bytes inflated at once: what is lost around damage."""
_MAX_INFLATED_BYTES = 4 << 20
_GZIP = b"\x1f\x8b"
_TAR_MAGIC_AT = 257

Read = Callable[[int], bytes]


@dataclass
class Damage:
    """What is wrong with the bytes of one file; empty when nothing is."""

    text: str = ""


@dataclass
class Source:
    """One file to read, once and forward: `head` may be looked at before, `read` gives it whole."""

    name: str
    """path as the user knows it, with the archive's name in front of a member's"""
    head: bytes
    """first bytes, inflated"""
    read: Read
    """the next n bytes, inflated, b"" at the end"""
    path: Path | None = None
    """the file itself where it is one: for formats that need to jump about in it"""
    damage: list[Damage] = field(default_factory=list)

    def damages(self) -> list[str]:
        """What was found wrong with its bytes so far."""
        return [damage.text for damage in self.damage if damage.text]


def files_of(paths: Sequence[Path]) -> list[Path]:
    """Files behind the paths, folders walked in natural order, hidden files left out.

    Raises UserError for a path that is not there and where there is no file at all.
    """
    files: list[Path] = []
    for path in paths:
        if path.is_dir():
            files += _files_below(path)
        elif path.is_file():
            files.append(path)
        elif path.exists():
            raise UserError(f"{path} is neither a file nor a folder; give a trace file")
        else:
            raise UserError(f"{path} does not exist; check the path")
    if not files:
        raise UserError(f"{paths[0]} is an empty folder; give a trace file or a folder of them")
    return list(dict.fromkeys(files))


def _files_below(folder: Path) -> list[Path]:
    found = [
        path
        for path in folder.rglob("*")
        if path.is_file() and not any(p.startswith(".") for p in path.relative_to(folder).parts)
    ]
    return sorted(found, key=lambda path: natural_key(str(path.relative_to(folder))))


def natural_key(text: str) -> list[tuple[int, int, str]]:
    """Sorts rank2 before rank10."""
    parts = re.split(r"(\d+)", text)
    return [(0, int(p), "") if p.isdecimal() else (1, 0, p) for p in parts]


def sources(files: Sequence[Path], on_bytes: Callable[[int], None]) -> Iterator[Source]:
    """Every file, and every member of every tar archive among them, in order.

    A source must be read before the next one is taken. `on_bytes` gets the number of bytes as
    they lie on disk whenever some were read.
    """
    for path in files:
        try:
            stream = path.open("rb")
        except OSError as error:
            yield _unreadable(str(path), f"cannot be opened: {error.strerror}")
            continue
        with stream:
            yield from _sources_in(stream, str(path), path, on_bytes)


def _sources_in(
    stream: BinaryIO, name: str, path: Path, on_bytes: Callable[[int], None]
) -> Iterator[Source]:
    damage = Damage()
    source = _source(name, _counted(stream, on_bytes, damage), path, [damage])
    if source.head[_TAR_MAGIC_AT : _TAR_MAGIC_AT + 5] == b"ustar":
        yield from _members(source)
    else:
        yield source


def _source(name: str, read: Read, path: Path | None, damage: list[Damage]) -> Source:
    raw = _Ahead(read)
    if raw.look(len(_GZIP)) == _GZIP:
        inflated = Damage()
        raw = _Ahead(_inflated(raw.read, inflated))
        damage = [*damage, inflated]
        path = None
    return Source(name, raw.look(HEAD_BYTES), raw.read, path, damage)


def _members(archive: Source) -> Iterator[Source]:
    """Members of a tar archive, streamed; what is wrong with the archive comes as a last source."""
    problem = ""
    stream: Any = _TarStream(archive.read)  # a stream is only read; the types ask for seek too
    try:
        with tarfile.open(fileobj=stream, mode="r|") as tar:
            for member in tar:
                content = tar.extractfile(member) if member.isfile() else None
                if content is not None and not Path(member.name).name.startswith("."):
                    damage = Damage()
                    read = _member_read(content, damage)
                    name = f"{archive.name}/{member.name}"
                    yield _source(name, read, None, [damage])
    except (tarfile.TarError, EOFError) as error:
        problem = f"is damaged and was read only in part: {error}"
    if problem:
        yield _unreadable(archive.name, "; ".join([*archive.damages(), problem]))


def _member_read(content: BinaryIO | object, damage: Damage) -> Read:
    read_content: Read = content.read  # type: ignore[union-attr]

    def read(num_bytes: int) -> bytes:
        try:
            return read_content(num_bytes)
        except (tarfile.TarError, EOFError):
            damage.text = "cut off, as its archive is"
            return b""

    return read


def _unreadable(name: str, why: str) -> Source:
    return Source(name, b"", lambda _: b"", None, [Damage(why)])


def _counted(stream: BinaryIO, on_bytes: Callable[[int], None], damage: Damage) -> Read:
    def read(num_bytes: int) -> bytes:
        try:
            piece = stream.read(num_bytes)
        except OSError as error:
            damage.text = f"could not be read on: {error.strerror}"
            return b""
        on_bytes(len(piece))
        return piece

    return read


class _TarStream:
    """The read method tarfile wants, and nothing else."""

    def __init__(self, read: Read) -> None:
        self._read = read

    def read(self, num_bytes: int) -> bytes:
        """Exactly `num_bytes`, fewer only at the end."""
        pieces: list[bytes] = []
        while num_bytes:
            piece = self._read(num_bytes)
            if not piece:
                break
            pieces.append(piece)
            num_bytes -= len(piece)
        return b"".join(pieces)


class _Ahead:
    """A stream whose beginning can be looked at before it is read."""

    def __init__(self, read: Read) -> None:
        self._read = read
        self._held = b""

    def look(self, num_bytes: int) -> bytes:
        """The first bytes, without taking them."""
        pieces = [self._held]
        missing = num_bytes - len(self._held)
        while missing > 0:
            piece = self._read(missing)
            if not piece:
                break
            pieces.append(piece)
            missing -= len(piece)
        self._held = b"".join(pieces)
        return self._held[:num_bytes]

    def read(self, num_bytes: int) -> bytes:
        """The next bytes, at most `num_bytes`."""
        if self._held:
            piece, self._held = self._held[:num_bytes], self._held[num_bytes:]
            return piece
        return self._read(num_bytes)


def _inflated(read: Read, damage: Damage) -> Read:
    """Reads gzip of any number of members; a damaged one ends early and is noted in `damage`."""
    inflater = isal_zlib.decompressobj(wbits=31)
    waiting = b""  # compressed bytes not yet taken
    done_bytes = 0
    ended = False

    def next_piece(num_bytes: int) -> bytes:
        nonlocal inflater, waiting, done_bytes, ended
        limit = min(num_bytes, _MAX_INFLATED_BYTES)  # a gzip bomb must not unfold at once
        while not ended:
            if not waiting:
                waiting = read(_PIECE_BYTES)
            if inflater.eof:
                if not waiting.startswith(_GZIP):  # the end, or padding behind it
                    ended = True
                    break
                inflater = isal_zlib.decompressobj(wbits=31)
            at_end = not waiting
            try:
                piece = inflater.decompress(waiting, limit)
            except isal_zlib.error as error:  # type: ignore[misc]
                ended = True
                damage.text = f"its gzip is damaged after {done_bytes:,} bytes of content: {error}"
                break
            waiting = inflater.unused_data if inflater.eof else inflater.unconsumed_tail
            done_bytes += len(piece)
            if piece:
                return piece
            if at_end and not inflater.eof:
                ended = True
                damage.text = f"its gzip is cut off after {done_bytes:,} bytes of content"
        return b""

    return next_piece
