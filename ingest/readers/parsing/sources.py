"""What a user points at, as a stream of files: single files, folders, archives, gzip inside.

Everything is read forward only and in pieces, so that an archive is never unpacked to disk and
memory stays flat. What is damaged ends early and reports where; it raises nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

from ingest.errors import UserError, printable
from ingest.limits import limits, variable
from ingest.readers.parsing.archives import Member, is_tar, is_zip, tar_members, zip_members
from ingest.streams import (
    GZIP,
    Ahead,
    Allowance,
    Damage,
    Read,
    as_utf_8,
    counted,
    inflated,
    natural_key,
)

HEAD_BYTES = 1 << 20
"""How much of a file may be looked at to recognise it."""
_LONGEST_NAME = 1000
_UTF_16 = {b"\xff\xfe": "utf-16-le", b"\xfe\xff": "utf-16-be"}
"""Byte order marks of text that Windows has saved again."""


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
    changed_s: float | None = None
    """Unix time of the last change of the file, or of the archive it is in; None unknown"""

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


def cut_to_limit(files: list[Path]) -> str:
    """Remove the files beyond RANKSCOPE_MAX_FILES; returns sentences about them, if any."""
    most = limits().max_files
    rest = files[most:]
    del files[most:]
    return f"{rest[0]} and what follows were not read: {_too_many(most)}" if rest else ""


def _too_many(most: int) -> str:
    name = variable("max_files")
    return f"there are more files than {name}={most}; raise it to read them"


def _files_below(folder: Path) -> list[Path]:
    paths = [
        path
        for path in folder.rglob("*")
        if path.is_file() and not any(p.startswith(".") for p in path.relative_to(folder).parts)
    ]
    return sorted(paths, key=lambda path: natural_key(str(path.relative_to(folder))))


def sources(files: Sequence[Path], on_bytes: Callable[[int], None]) -> Iterator[Source]:
    """Every file, and every member of every archive (tar, zip) among them, in order.

    A source must be read before the next one is taken. `on_bytes` gets the number of bytes as
    they lie on disk whenever some were read. Beyond RANKSCOPE_MAX_FILES nothing is read.
    """
    most = limits().max_files
    for number, source in enumerate(_all_sources(files, on_bytes)):
        if number == most:
            yield _unreadable(
                source.name, f"this and what follows were not read: {_too_many(most)}"
            )
            return
        yield source


def _all_sources(files: Sequence[Path], on_bytes: Callable[[int], None]) -> Iterator[Source]:
    for path in files:
        try:
            stream = path.open("rb")
        except OSError as error:
            yield _unreadable(str(path), f"cannot be opened: {error.strerror}")
            continue
        with stream:
            changed_s = path.stat().st_mtime
            for source in _sources_in(stream, path, on_bytes):
                source.changed_s = changed_s
                yield source


def _sources_in(stream: BinaryIO, path: Path, on_bytes: Callable[[int], None]) -> Iterator[Source]:
    damage = Damage()
    allowance = Allowance(path.stat().st_size)
    source = _source(str(path), counted(stream, on_bytes, damage), path, [damage], allowance)
    if is_tar(source.head):
        yield from _members_of(source, tar_members(source.read), allowance)
    elif is_zip(source.head) and source.path is not None:
        yield from _members_of(source, zip_members(stream, on_bytes, allowance), allowance)
    else:
        yield source


def _source(
    name: str, read: Read, path: Path | None, damage: list[Damage], allowance: Allowance
) -> Source:
    raw = Ahead(read)
    if raw.look(len(GZIP)) == GZIP:
        inflating = Damage()
        raw = Ahead(inflated(raw.read, inflating, allowance))
        damage = [*damage, inflating]
        path = None
    # the whole head at once: isal reports damage too early after a first read of two bytes
    encoding = _UTF_16.get(raw.look(HEAD_BYTES)[:2])
    if encoding is not None:
        raw = Ahead(as_utf_8(raw.read, encoding))
        path = None
    return Source(name, raw.look(HEAD_BYTES), raw.read, path, damage)


def _members_of(
    archive: Source, members: Iterator[Member], allowance: Allowance
) -> Iterator[Source]:
    """Files of an archive; what is wrong with the archive itself comes as a source, too."""
    for member in members:
        inside = printable(member.name.replace("\\", "/"))[:_LONGEST_NAME]  # Windows packs so
        name = f"{archive.name}/{inside}" if inside else archive.name
        if member.read is None:
            why = "; ".join([*(archive.damages() if not inside else []), member.damage.text])
            yield _unreadable(name, why)
        else:
            yield _source(name, member.read, None, [member.damage], allowance)


def _unreadable(name: str, why: str) -> Source:
    return Source(name, b"", lambda _: b"", None, [Damage(why)])
