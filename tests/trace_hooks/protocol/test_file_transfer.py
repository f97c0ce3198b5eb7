"""Files of a rank on the wire."""

from __future__ import annotations

import struct

import pytest

from trace_hooks.protocol.file_transfer import MAGIC, Parcel, decode, segment_path
from trace_hooks.schema import SegmentName

SEGMENT = SegmentName("steps", 2, 5, 7)


@pytest.mark.parametrize(
    ("name", "segment", "rank", "attempt"),
    [
        ("run.json", None, None, None),
        ("ranks/0002-00005.json", None, 5, 2),
        (segment_path(SEGMENT), SEGMENT, 5, 2),
    ],
)
def test_a_file_and_back(
    name: str, segment: SegmentName | None, rank: int | None, attempt: int | None
) -> None:
    parcel = Parcel(name, b"\x00data")
    assert decode(parcel.encode()) == parcel
    assert (parcel.segment, parcel.rank, parcel.attempt) == (segment, rank, attempt)


@pytest.mark.parametrize(
    "name",
    [
        "",
        "run.json/..",
        "../run.json",
        "segments/../run.json",
        "segments/secrets-0000-00000-00000000.parquet",
        "ranks/0-0.json",
        "job-secret",
        "/etc/passwd",
        "segments/../x",
        "segments/x.parquet",
        "segments/",
        "ranks/a.json",
        "ranks/000\u0660-0000\u0665.json",  # digits, but not those of the file's name
        "ranks/0000-00000.json/..",
        "index/manifest",
        "segments/eval-0000-00003-1",
    ],
)
def test_no_other_file_has_a_name(name: str) -> None:
    with pytest.raises(ValueError, match="is not a file of a rank"):
        Parcel(name, b"")


@pytest.mark.parametrize(
    ("encoded", "words"),
    [
        (b"", "does not begin with RSP1"),
        (b"RSF1" + bytes(8), "does not begin with RSP1"),
        (MAGIC + struct.pack("<I", 100) + b"{}", "claims 100 bytes"),
        (MAGIC + struct.pack("<I", 2) + b"{}", "not JSON with a name"),
        (MAGIC + struct.pack("<I", 10) + b'{"name":5}', "name is not text"),
    ],
)
def test_anything_else_is_refused(encoded: bytes, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        decode(encoded)
