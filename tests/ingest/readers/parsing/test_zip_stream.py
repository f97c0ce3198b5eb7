"""A zip archive without its directory: files by their own headers, up to where it was cut."""

from __future__ import annotations

import io
import zipfile

import pytest

from ingest.readers.parsing.zip_stream import headed_files
from ingest.streams import Allowance

FILES = {"a": b"first " * 999, "b/c": b"second"}


def _zip(method: int, is_stream: bool) -> bytes:
    buffer = io.BytesIO()

    class Unseekable(io.RawIOBase):
        def writable(self) -> bool:
            return True

        def write(self, data: bytes) -> int:  # type: ignore[override]
            return buffer.write(data)

    with zipfile.ZipFile(Unseekable() if is_stream else buffer, "w", method) as archive:
        for name, content in FILES.items():
            archive.writestr(name, content)
    return buffer.getvalue()


def _contents(data: bytes) -> dict[str, bytes]:
    found = {}
    for headed in headed_files(io.BytesIO(data), Allowance(len(data))):
        found[headed.name] = b"".join(iter(lambda: headed.read(100), b""))  # noqa: B023
    return found


@pytest.mark.parametrize("is_stream", [False, True], ids=["sizes in front", "sizes behind"])
def test_files_come_without_the_directory(is_stream: bool) -> None:
    data = _zip(zipfile.ZIP_DEFLATED, is_stream)
    assert _contents(data[: data.index(b"PK\x01\x02")]) == FILES


def test_stored_files_come_too() -> None:
    assert _contents(_zip(zipfile.ZIP_STORED, is_stream=False)) == FILES


def test_one_that_is_cut_off_ends_with_an_error() -> None:
    data = _zip(zipfile.ZIP_STORED, is_stream=False)
    with pytest.raises(EOFError, match="the archive ends in it"):
        _contents(data[:2000])
