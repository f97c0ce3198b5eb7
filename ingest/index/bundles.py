"""Unpacks the bundles that the collectors of hosts publish into the segments that they hold.

Names follow from the bundle, each segment is written whole and renamed, and the bundle goes last.
So after a crash at any moment the next pass goes on, and no row is lost or comes twice.
"""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Container, Iterator, Sequence
from pathlib import Path
from typing import IO
from zipfile import ZIP_STORED, BadZipFile, ZipFile, ZipInfo

from ingest.errors import printable
from ingest.index.index_database import IndexDatabase
from ingest.index.quarantine import Quarantine
from ingest.run_folder.run_paths import UNPACKED, listed, plain_file
from trace_hooks.schema import SegmentName
from trace_hooks.schema.bundles import BundleName

DAMAGES = (BadZipFile, NotImplementedError, RuntimeError, ValueError, EOFError)
"""What reading an archive raises that is damaged, or is none."""
UNREADABLE = (OSError, *DAMAGES)

_DONE = ".done"
"""Ending of a mark: that bundle is unpacked. Its content is what is wrong with it."""
_PIECE = 1 << 20
_ENCRYPTED = 1
"""Bit of a member's flags."""


def bundles_of(run_folder: Path) -> list[Path]:
    """The bundles of a run that are not unpacked, oldest first."""
    names = (file.name for file in listed(run_folder / "segments", ".zip"))
    found = sorted((parsed.number, name) for name in names if (parsed := BundleName.parse(name)))
    return [run_folder / "segments" / name for _, name in found]


def unpack_bundles(run_folder: Path, known: Container[str], quarantine: Quarantine) -> None:
    """Unpack every bundle of a run; `known`: paths of segments that are or were there.

    A damaged one goes into quarantine, and its sound segments are unpacked: it must not stay, as a
    new index would unpack it again. Raises OSError where the folder cannot be written.
    """
    for bundle in bundles_of(run_folder):
        problems = list(_unpacked(bundle, known, bundle.parent))
        if problems:
            quarantine.set_aside(bundle, "; ".join(problems)[:400])
        else:
            bundle.unlink(missing_ok=True)


def unpack_into(folder: Path, run_folder: Path) -> list[str]:
    """Unpack the bundles of a run that may only be read into a folder next to its index; what is
    wrong with them, a sentence each. Raises OSError where that folder cannot be written.

    Their segments may come into the run folder, too, where another indexer unpacks them there.
    """
    folder.mkdir(exist_ok=True)
    done = {file.name: file.stat().st_size for file in os.scandir(folder)}
    for bundle in bundles_of(run_folder):
        mark = folder / f"{bundle.name}{_DONE}"
        if mark.name not in done:
            in_run = {f"segments/{file.name}" for file in listed(bundle.parent, ".parquet")}
            text = "; ".join(_unpacked(bundle, in_run, folder))[:400]
            mark.write_text(text, encoding="utf-8")
            done[mark.name] = len(text)
    marks = (name for name, size in sorted(done.items()) if size and name.endswith(_DONE))
    return [(folder / name).read_text(encoding="utf-8") for name in marks]


def is_unpacked(bundle: Path, folder: Path) -> bool:
    """Whether a bundle was unpacked into a folder next to the index."""
    return (folder / f"{bundle.name}{_DONE}").exists()


def unpacked_path(path: str) -> str:
    """Path in a manifest of a segment that was unpacked next to the index."""
    return f"{UNPACKED}/{path.rpartition('/')[2]}"


def store_problems(database: IndexDatabase, texts: Sequence[str]) -> None:
    """Bring the problems of bundles up to date."""
    rows = database.connection.execute(
        "SELECT text FROM problems WHERE source = 'bundles' ORDER BY rowid"
    ).fetchall()
    if [text for (text,) in rows] == list(texts):
        return
    with database.transaction():
        database.connection.execute("DELETE FROM problems WHERE source = 'bundles'")
        for text in texts:
            database.connection.execute("INSERT INTO problems VALUES ('bundles', ?)", [text])


def examine_bundle(bundle: Path) -> str:
    """What is wrong with a bundle, one sentence; empty: nothing."""
    try:
        with _opened(bundle) as archive:
            for member in archive.infolist():
                with archive.open(member) as content:
                    while content.read(_PIECE):
                        pass
    except UNREADABLE as error:
        return _sentence(bundle, error)
    return ""


def _unpacked(bundle: Path, known: Container[str], folder: Path) -> Iterator[str]:
    """Unpack one bundle into a folder; yields what is wrong with it."""
    try:
        archive = _opened(bundle)
    except FileNotFoundError:  # it is unpacked already
        return
    except UNREADABLE as error:
        yield _sentence(bundle, error)
        return
    with archive:
        written_ns = bundle.stat().st_mtime_ns
        for member in archive.infolist():
            segment = folder / member.filename
            if f"segments/{segment.name}" in known or os.path.lexists(segment):
                continue
            try:
                _unpack(archive, member, segment, written_ns)
            except DAMAGES as error:
                yield _sentence(segment, error)


def _unpack(archive: ZipFile, member: ZipInfo, segment: Path, written_ns: int) -> None:
    """Write a segment, as old as its bundle; raises OSError and one of DAMAGES."""
    temporary = segment.with_name(f".{segment.name}.{os.getpid()}.tmp")
    temporary.unlink(missing_ok=True)  # a link there would be written through
    try:
        with _content(archive, member) as content, temporary.open("xb") as file:
            shutil.copyfileobj(content, file, _PIECE)
        os.utime(temporary, ns=(written_ns, written_ns))
        temporary.replace(segment)
    finally:
        temporary.unlink(missing_ok=True)


def _content(archive: ZipFile, member: ZipInfo) -> IO[bytes]:
    """A segment, to read; raises OSError and one of DAMAGES."""
    try:
        return archive.open(member)
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise
        raise BadZipFile("a segment is said to lie outside of the file") from None


def _opened(bundle: Path) -> ZipFile:
    """The archive; raises one of UNREADABLE where it holds anything but segments of the bundle."""
    size, name = plain_file(bundle).st_size, BundleName.parse(bundle.name)
    archive = ZipFile(bundle)
    try:
        for member in archive.infolist():
            segment = SegmentName.parse(member.filename)
            if name is None or segment is None or segment.attempt != name.attempt:
                raise ValueError(f"it holds {member.filename[:100]!r}, which is no segment of it")
            if member.compress_type != ZIP_STORED or member.flag_bits & _ENCRYPTED:
                raise ValueError("it is compressed or encrypted, as no collector writes it")
        if sum(member.file_size for member in archive.infolist()) > size:
            raise ValueError("its segments would be larger than the file")
    except ValueError:
        archive.close()
        raise
    return archive


def _sentence(path: Path, error: Exception) -> str:
    return printable(f"{path.name} cannot be used: {' '.join(str(error).split())[:200]}")
