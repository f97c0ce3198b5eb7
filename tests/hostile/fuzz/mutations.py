"""Good files made bad: changed at random, archives with changed members and right checksums."""

from __future__ import annotations

import gzip
import io
import random
import tarfile
import zipfile
import zlib
from collections.abc import Callable

_TOKENS = [
    b"NaN",
    b"-Infinity",
    b"1e999",
    b"9" * 400,
    b"-1",
    b'"x"',
    b"null",
    b"[" * 3000,
    b"{}",
    b"\x00",
    b"\xff\xfe",
    b"\\ud800",
    b'"',
    b"]",
    b"}",
    b",",
    b"9223372036854775808",
    b"2147483648",
    b"0",
    b"true",
    b"[[1]]",
    b"\x1b[2J",
]
_NAMES = [
    "../../escaped",
    "/escaped",
    "a\x00b",
    "x" * 300,
    ".hidden",
    "rank-99999999999.json",
    "a/b/../../../escaped",
    "\x1b[2J",
    "rank-0.json",
]
_REPACKED = 0.7
"""Share of archives of which members are changed; of the others the bytes themselves."""
_IN_PLACE = 0.75
"""Share of files of pages and places (Parquet, SQLite) whose bytes stay where they are."""
_KEPT_HEAD = 200

Members = list[tuple[str, bytes]]


def mutated(content: bytes, others: list[bytes], rng: random.Random) -> bytes:
    """The content with 1 to 8 changes; an archive mostly with changed members.

    In half of all cases the first 200 bytes stay. What ends in a directory (Parquet, zip) keeps
    its end in two of three cases; what has places (Parquet, SQLite) mostly its length.
    """
    members = members_of(content) if rng.random() < _REPACKED else []
    if members:
        return _packed_again(content, members, others, rng)
    kept = _KEPT_HEAD if rng.random() < 0.5 and len(content) > 2 * _KEPT_HEAD else 0
    has_end = content[-4:] == b"PAR1" or content[:2] == b"PK"
    end = _before_directory(content) if has_end and rng.random() < 0.67 else len(content)
    head, data, tail = content[:kept], bytearray(content[kept:end]), content[end:]
    has_places = has_end or content[:6] == b"SQLite"
    in_place = has_places and rng.random() < _IN_PLACE
    changes = [_flip, _overwrite] if in_place else _MUTATIONS
    for _ in range(rng.randint(1, 8)):
        if not data:
            break
        changes[rng.randrange(len(changes))](data, others, rng)
    return head + bytes(data) + tail


def _before_directory(content: bytes) -> int:
    if content[-4:] == b"PAR1":
        return max(len(content) - 8 - int.from_bytes(content[-8:-4], "little"), 0)
    return len(content) * 2 // 3


def members_of(content: bytes) -> Members:
    """Files in an archive; one without a name in a plain gzip, none in anything else."""
    try:
        return _members(content)
    except (OSError, EOFError, ValueError, zlib.error, tarfile.TarError, zipfile.BadZipFile):
        return []  # changed before


def _members(content: bytes) -> Members:
    if content[:2] == b"\x1f\x8b":
        inside = gzip.decompress(content)
        return _members(inside) or [("", inside)]
    if content[:2] == b"PK":
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            return [(name, archive.read(name)) for name in archive.namelist()]
    if content[257:262] == b"ustar":
        with tarfile.open(fileobj=io.BytesIO(content)) as tar:
            files = [(info.name, tar.extractfile(info)) for info in tar]
            return [(name, file.read()) for name, file in files if file is not None]
    return []


def _packed_again(
    content: bytes, members: Members, others: list[bytes], rng: random.Random
) -> bytes:
    """An archive like `content` in which one or more members are other ones."""
    for _ in range(rng.randint(1, len(members))):
        at = rng.randrange(len(members))
        name, inside = members[at]
        name = rng.choice(_NAMES) if name and rng.random() < 0.15 else name
        members[at] = (name, mutated(inside, others, rng))
    if members[0][0] and rng.random() < 0.2:
        members.insert(rng.randrange(len(members)), rng.choice(members))
    if content[:2] == b"PK":
        return _zipped(members)
    packed = _tarred(members) if members[0][0] else members[0][1]
    return gzip.compress(packed, 1, mtime=0) if content[:2] == b"\x1f\x8b" else packed


def _zipped(members: Members) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, inside in members:
            info = zipfile.ZipInfo("a")
            info.filename = name  # twice the same, and what no file can be called, too
            info.compress_type = zipfile.ZIP_DEFLATED
            archive.filelist = [known for known in archive.filelist if known.filename != name]
            archive.NameToInfo.pop(name, None)
            archive.writestr(info, inside)
    return packed.getvalue()


def _tarred(members: Members) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        for name, inside in members:
            info = tarfile.TarInfo(name)
            info.size = len(inside)
            archive.addfile(info, io.BytesIO(inside))
    return packed.getvalue()


def _flip(data: bytearray, _: list[bytes], rng: random.Random) -> None:
    for _ in range(rng.randint(1, 20)):
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)


def _overwrite(data: bytearray, _: list[bytes], rng: random.Random) -> None:
    at, length = rng.randrange(len(data)), rng.randint(1, 16)
    value = rng.choice([b"\x00", b"\xff", b"\x7f", b"\x80", b"A"]) * length
    data[at : at + length] = value[: len(data) - at]


def _cut(data: bytearray, _: list[bytes], rng: random.Random) -> None:
    del data[rng.randrange(len(data)) :]


def _remove(data: bytearray, _: list[bytes], rng: random.Random) -> None:
    at = rng.randrange(len(data))
    del data[at : at + rng.randint(1, 200)]


def _repeat(data: bytearray, _: list[bytes], rng: random.Random) -> None:
    at = rng.randrange(len(data))
    piece = data[at : at + rng.randint(1, 300)]
    data[at:at] = piece * rng.randint(1, 20)


def _insert(data: bytearray, _: list[bytes], rng: random.Random) -> None:
    at = rng.randrange(len(data))
    data[at:at] = rng.choice(_TOKENS)


def _replace_number(data: bytearray, _: list[bytes], rng: random.Random) -> None:
    digits = [i for i in range(len(data)) if 48 <= data[i] <= 57]
    if digits:
        at = rng.choice(digits)
        data[at : at + rng.randint(1, 4)] = rng.choice(_TOKENS)


def _splice(data: bytearray, others: list[bytes], rng: random.Random) -> None:
    other = rng.choice(others)
    start, at = rng.randrange(len(other)), rng.randrange(len(data))
    data[at : at + rng.randint(0, 500)] = other[start : start + rng.randint(1, 500)]


_Mutation = Callable[[bytearray, list[bytes], random.Random], None]
_MUTATIONS: list[_Mutation] = [
    _flip,
    _cut,
    _remove,
    _repeat,
    _insert,
    _insert,
    _replace_number,
    _replace_number,
    _splice,
]
