"""The ring of a loader's worker: order, overwriting, torn records."""

from __future__ import annotations

from pathlib import Path

import pytest

from trace_hooks.recording.fetch_ring import CAPACITY, FetchRing


def write(ring: FetchRing, number: int) -> None:
    ring.write(1_000 + number, 20, 10, 5, 4_096, number, 8, "Images" * 9, "decode é")


@pytest.fixture
def rings(tmp_path: Path) -> tuple[FetchRing, FetchRing]:
    """The rank's side and the worker's."""
    path = tmp_path / "a.fetches"
    return FetchRing.create(path), FetchRing.open(path)


def test_records_arrive_in_order_and_once(rings: tuple[FetchRing, FetchRing]) -> None:
    rank, worker = rings
    assert rank.take() == []
    for number in range(3):
        write(worker, number)
    first = rank.take()
    write(worker, 3)
    assert [record.begin_ns for record in first + rank.take()] == [1_000, 1_001, 1_002, 1_003]
    assert (first[0].source, first[0].transform) == (("Images" * 9)[:32], "decode é")
    assert rank.take() == []
    assert rank.lost == 0


def test_what_was_overwritten_unread_is_counted(rings: tuple[FetchRing, FetchRing]) -> None:
    rank, worker = rings
    for number in range(CAPACITY + 10):
        write(worker, number)
    assert [record.number for record in rank.take()] == list(range(11, CAPACITY + 11))
    assert rank.lost == 10


def test_a_record_that_is_being_written_is_left_out(rings: tuple[FetchRing, FetchRing]) -> None:
    rank, worker = rings
    for number in range(2):
        write(worker, number)
    worker._map[64 + 144] ^= 2  # the first number of the record in slot 1
    assert [record.number for record in rank.take()] == [2]
    assert rank.lost == 1


def test_the_worker_is_known_once_it_has_opened_the_ring(tmp_path: Path) -> None:
    path = tmp_path / "a.fetches"
    rank = FetchRing.create(path)
    assert rank.pid == 0
    FetchRing.open(path)
    assert rank.pid > 0


def test_a_file_of_another_size_is_no_ring(tmp_path: Path) -> None:
    (tmp_path / "a.fetches").write_bytes(b"x")
    with pytest.raises(ValueError, match="not a ring"):
        FetchRing.open(tmp_path / "a.fetches")
