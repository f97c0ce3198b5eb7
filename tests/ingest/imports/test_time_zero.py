"""What times count from is known early, and by the files alone."""

from __future__ import annotations

from ingest.imports.time_zero import Starts


def test_the_smallest_file_with_a_start_decides() -> None:
    starts = Starts([30, 10, 20, 20])
    assert starts.turns == [1, 3, 2, 0]
    starts.note(0, 0, 5)
    starts.end(0)
    assert starts.first_ns is None  # smaller ones are still read
    starts.note(1, 0, None)
    assert starts.first_ns is None
    starts.end(1)
    starts.end(3)  # nothing could be read of it
    assert starts.first_ns is None
    starts.note(2, 0, 7)
    assert starts.first_ns == 7


def test_members_of_an_archive_count_in_their_order() -> None:
    """Several processes read them at once."""
    starts = Starts([10])
    starts.note(0, 1, 5)
    assert starts.first_ns is None
    starts.note(0, 0, None)
    assert starts.first_ns == 5


def test_a_member_that_ended_its_process_holds_nothing_up() -> None:
    starts = Starts([10])
    starts.note(0, 1, 0)
    starts.end(0)
    assert starts.first_ns == 0


def test_without_a_start_in_any_file_there_is_none() -> None:
    starts = Starts([10, 10])
    starts.end(0)
    starts.note(1, 0, None)
    starts.end(1)
    assert starts.first_ns is None
    assert Starts([]).first_ns is None
