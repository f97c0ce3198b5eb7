"""Files inside archives, one after another, never written to disk: tar as a stream, zip in place.

Names are only shown, so that `../x` leads nowhere; links, devices and sparse files are reported,
not followed. Of a header that claims to be long nothing is read.
"""

from __future__ import annotations

import stat
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import Any, BinaryIO

from ingest.limits import limits, variable
from ingest.readers.parsing.zip_stream import headed_files
from ingest.streams import Allowance, Damage, Read, natural_key

_TAR_MAGIC_AT = 257
_LONGEST_HEADER = 1 << 20
_LONG_HEADERS = (
    tarfile.XHDTYPE,
    tarfile.XGLTYPE,
    tarfile.SOLARIS_XHDTYPE,
    tarfile.GNUTYPE_LONGNAME,
    tarfile.GNUTYPE_LONGLINK,
)
_ENCRYPTED = 1
_ZIP_END, _ZIP64_END = b"PK\x05\x06", b"PK\x06\x06"
_ZIP_END_BYTES = 22
_WITHOUT_END = "is a zip archive without its end: it was cut off"
_ZIP_ENTRY_BYTES = 46
_ODD_TAR = (tarfile.TarError, EOFError, ValueError, ArithmeticError, RecursionError, OSError)
_ODD_ZIP = (
    zipfile.BadZipFile,
    EOFError,
    ValueError,
    ArithmeticError,
    NotImplementedError,
    RuntimeError,
    OSError,
    zlib.error,
    struct.error,
)


@dataclass
class Member:
    """One file of an archive; without `read`, `damage` is the reason. The archive's own has no
    name.
    """

    name: str
    read: Read | None = None
    damage: Damage = field(default_factory=Damage)


def is_tar(head: bytes) -> bool:
    """Whether a file begins as a tar archive does."""
    return head[_TAR_MAGIC_AT : _TAR_MAGIC_AT + 5] == b"ustar"


def is_zip(head: bytes) -> bool:
    """Whether a file begins as a zip archive does."""
    return head[:4] in (b"PK\x03\x04", _ZIP_END)


def _is_hidden(name: str) -> bool:
    return PurePath(name.replace("\\", "/")).name.startswith(".")


def tar_members(read: Read) -> Iterator[Member]:
    """Files of a tar archive that is read forward."""
    problem = ""
    stream: Any = _TarStream(read)  # a stream is only read; the types want seek too
    try:
        with tarfile.open(fileobj=stream, mode="r|", tarinfo=_ShortHeaders) as tar:
            for number, info in enumerate(tar):
                if number >= limits().max_files:
                    problem = f"holds more than {variable('max_files')}={limits().max_files} files"
                    break
                tar.members = []  # type: ignore[attr-defined]  # what was passed is not kept
                member = _tar_member(tar, info)
                if member is not None:
                    yield member
    except _ODD_TAR as error:
        problem = f"is damaged and was read only in part: {error or type(error).__name__}"
    if problem:
        yield Member("", damage=Damage(problem))


def _tar_member(tar: tarfile.TarFile, info: tarfile.TarInfo) -> Member | None:
    if info.isdir() or _is_hidden(info.name):
        return None
    if not info.isfile() or info.issparse():
        what = "a link" if info.islnk() or info.issym() else "not a regular file"
        return Member(info.name, damage=Damage(f"is {what} inside an archive, left out"))
    content = tar.extractfile(info)
    if content is None:
        return None
    damage = Damage()
    return Member(info.name, _guarded(content.read, damage, _ODD_TAR), damage)


class _ShortHeaders(tarfile.TarInfo):
    """Headers of members, of which none makes tarfile read more than a MiB into memory."""

    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> _ShortHeaders:
        """A header from its block; raises tarfile.ReadError where tarfile would stop silently."""
        if not buf:
            raise tarfile.ReadError("it has no end, so that more may be missing")
        try:
            header = super().frombuf(buf, encoding, errors)
        except tarfile.HeaderError as error:
            if not any(buf):  # the end
                raise
            raise tarfile.ReadError(f"damaged header: {error}") from None
        if header.type in _LONG_HEADERS and header.size > _LONGEST_HEADER:
            raise tarfile.ReadError(f"a header claims to have {header.size:,} bytes")
        return header


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


def _guarded(read_content: Read, damage: Damage, odd: tuple[type[Exception], ...]) -> Read:
    def read(num_bytes: int) -> bytes:
        try:
            return read_content(num_bytes)
        except odd as error:
            damage.text = f"cut off or damaged inside its archive ({error or type(error).__name__})"
            return b""

    return read


def zip_members(
    stream: BinaryIO, on_bytes: Callable[[int], None], allowance: Allowance
) -> Iterator[Member]:
    """Files of a zip archive, by name."""
    problem = _directory_problem(stream)
    if problem == _WITHOUT_END:
        yield from _headed_members(stream, on_bytes, allowance)
    elif not problem:
        try:
            with zipfile.ZipFile(stream) as archive:
                infos = [info for info in archive.infolist() if not info.is_dir()]
                for info in sorted(infos, key=lambda info: natural_key(info.filename)):
                    if not _is_hidden(info.filename):
                        yield _zip_member(archive, info, on_bytes, allowance)
        except _ODD_ZIP as error:
            problem = f"is damaged and was read only in part: {error or type(error).__name__}"
    if problem:
        yield Member("", damage=Damage(problem))


def _directory_problem(stream: BinaryIO) -> str:
    """Why the directory must not be read: zipfile holds all of it in memory."""
    size = stream.seek(0, 2)
    stream.seek(max(0, size - _ZIP_END_BYTES - (1 << 16) - 128))
    end = stream.read()
    offset = end.rfind(_ZIP_END)
    if offset < 0 or len(end) - offset < _ZIP_END_BYTES:
        return _WITHOUT_END
    (directory_bytes,) = struct.unpack_from("<I", end, offset + 12)
    at64 = end.rfind(_ZIP64_END)
    if directory_bytes == 0xFFFFFFFF and at64 >= 0 and len(end) - at64 >= 48:
        (directory_bytes,) = struct.unpack_from("<Q", end, at64 + 40)
    most = limits().max_files
    if directory_bytes > min(size, most * 4 * _ZIP_ENTRY_BYTES):
        return f"claims a directory of {directory_bytes:,} bytes ({variable('max_files')}={most})"
    return ""


def _zip_member(
    archive: zipfile.ZipFile,
    info: zipfile.ZipInfo,
    on_bytes: Callable[[int], None],
    allowance: Allowance,
) -> Member:
    damage = Damage(_refusal(bool(info.flag_bits & _ENCRYPTED), info.compress_type))
    if stat.S_ISLNK(info.external_attr >> 16):
        damage.text = "is a link inside an archive, left out"
    if damage.text:
        return Member(info.filename, damage=damage)
    try:
        content = archive.open(info)
    except _ODD_ZIP as error:
        return Member(info.filename, damage=Damage(f"cannot be unpacked: {error}"))
    on_bytes(info.compress_size)
    return Member(info.filename, _unfolded(content.read, damage, allowance), damage)


def _refusal(is_encrypted: bool, method: int) -> str:
    if is_encrypted:
        return "is encrypted inside its archive, left out"
    if method not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        return "is compressed with a method that rankscope does not read, left out"
    return ""


def _headed_members(
    stream: BinaryIO, on_bytes: Callable[[int], None], allowance: Allowance
) -> Iterator[Member]:
    """Files of an archive that was cut off, as far as it goes."""
    reported_bytes = 0
    try:
        for number, file in enumerate(headed_files(stream, allowance)):
            if number >= limits().max_files:
                return
            if file.name.endswith("/") or _is_hidden(file.name):
                continue
            damage = Damage(_refusal(file.is_encrypted, file.method))
            read = None if damage.text else _guarded(file.read, damage, _ODD_ZIP)
            yield Member(file.name, read, damage)
            on_bytes(max(0, stream.tell() - reported_bytes))
            reported_bytes = max(stream.tell(), reported_bytes)
    except _ODD_ZIP:
        return  # that the archive is cut off is reported in any case


def _unfolded(read_content: Read, damage: Damage, allowance: Allowance) -> Read:
    guarded = _guarded(read_content, damage, _ODD_ZIP)

    def read(num_bytes: int) -> bytes:
        if damage.text:
            return b""
        piece = guarded(num_bytes)
        if not allowance.takes(len(piece)):
            damage.text = allowance.refusal()
            return b""
        return piece

    return read
