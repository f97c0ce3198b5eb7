"""Streams: looked ahead, inflated within an allowance, of any encoding, damage noted."""

from __future__ import annotations

import gzip
import io

import pytest

from ingest.limits import MIB
from ingest.streams import Ahead, Allowance, Damage, Read, as_utf_8, inflated, natural_key


def _all(read: Read) -> bytes:
    return b"".join(iter(lambda: read(1000), b""))


def test_looking_ahead_takes_nothing() -> None:
    ahead = Ahead(io.BytesIO(b"0123456789").read)
    assert ahead.look(4) == b"0123"
    assert ahead.look(20) == b"0123456789"
    assert ahead.read(3) == b"012"
    assert _all(ahead.read) == b"3456789"


def test_members_of_gzip_follow_each_other_and_padding_ends_them() -> None:
    packed, damage = gzip.compress(b"one ") + gzip.compress(b"two") + b"\0" * 9, Damage()
    assert _all(inflated(io.BytesIO(packed).read, damage, Allowance(len(packed)))) == b"one two"
    assert damage.text == ""


@pytest.mark.parametrize("piece_bytes", range(20, 60))
def test_members_of_gzip_may_begin_anywhere_in_a_piece(piece_bytes: int) -> None:
    packed, damage = gzip.compress(b"one ") + gzip.compress(b"two"), Damage()
    stream = io.BytesIO(packed)
    read = inflated(lambda size: stream.read(min(size, piece_bytes)), damage, Allowance(1))
    assert _all(read) == b"one two"
    assert damage.text == ""


def test_bytes_behind_a_gzip_that_are_no_gzip_are_reported() -> None:
    packed, damage = gzip.compress(b"one ") + b"\0\0two", Damage()
    assert _all(inflated(io.BytesIO(packed).read, damage, Allowance(1))) == b"one "
    assert damage.text == "bytes that follow its gzip are no gzip, left out"


@pytest.mark.parametrize(
    ("change", "message"),
    [(lambda data: data[:-9], "is cut off after"), (lambda data: data[:20] + b"x" * 99, "damaged")],
)
def test_damage_is_noted_and_ends_the_file(change, message) -> None:  # type: ignore[no-untyped-def]
    content = bytes(range(256)) * 40
    packed, damage = change(gzip.compress(content)), Damage()
    read = inflated(io.BytesIO(packed).read, damage, Allowance(len(packed)))
    assert content.startswith(_all(read))
    assert message in damage.text


def test_a_file_may_unfold_to_its_allowance_and_no_further() -> None:
    allowance = Allowance(1)
    assert allowance.takes(256 * MIB)
    assert not allowance.takes(1 << 20)
    assert "RANKSCOPE_MAX_INFLATION" in allowance.refusal()


def test_text_of_another_encoding_becomes_utf_8() -> None:
    read = as_utf_8(io.BytesIO("grün".encode("utf-16")).read, "utf-16")
    assert _all(read).decode() == "grün"


def test_numbers_in_names_sort_as_numbers() -> None:
    assert sorted(["rank10", "rank2", "a"], key=natural_key) == ["a", "rank2", "rank10"]
