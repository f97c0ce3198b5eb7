"""The table of open requests on the page Stuck, of hand-made answers."""

from __future__ import annotations

from typing import Any

from app.views.stuck_requests import request_rows
from diagnosis.stuck.evidence import evidence_of
from tests.diagnosis.stuck.stuck_tables import entered, look, tables

WAIT = [entered(rank, 31) for rank in (0, 1, 3)] + [entered(2, 30, "completed")]
LOOKS = [look(rank) for rank in range(4)]


def rows_of(*args: Any, **kwargs: Any) -> list[tuple[str, ...]]:
    names = ("request", "posted", "not_posted", "unknown")
    rows = request_rows(evidence_of(tables(*args, **kwargs)))
    return [tuple(row[name] for name in names) for row in rows]


def message(rank: int, op: str, peer: int, seq: int, **changed: Any) -> dict[str, Any]:
    return entered(rank, seq, op=op, peer=peer, tag=0, **changed)


def test_a_collective_with_those_that_have_posted_it_and_the_one_that_has_not() -> None:
    (row,) = request_rows(evidence_of(tables(WAIT, LOOKS)))
    assert row == {
        "group": "group g7 (dp)",
        "request": "all_reduce 31",
        "posted": "ranks 0, 1 and 3",
        "not_posted": "rank 2",
        "unknown": "",
        "for_s": 9.0,
    }


def test_a_rank_that_is_further_has_posted_what_came_before() -> None:
    rows = [entered(0, 31), entered(1, 32), entered(2, 31), entered(3, 31)]
    rows += [entered(1, 31, "completed")]
    assert rows_of(rows, LOOKS) == [
        ("all_reduce 32", "rank 1", "ranks 0, 2 and 3", ""),
        ("all_reduce 31", "ranks 0, 1, 2 and 3", "", ""),
    ]


def test_of_a_rank_whose_dump_was_cut_off_it_is_not_said_that_it_lacks() -> None:
    rows = [entered(rank, 31) for rank in (0, 1, 3)]
    cut = look(2, source="flight_recorder", num_entered=-1)
    assert rows_of(rows, [*LOOKS[:2], cut, LOOKS[3]]) == [
        ("all_reduce 31", "ranks 0, 1 and 3", "", "rank 2")
    ]


def test_operations_that_differ_are_both_named() -> None:
    rows = [entered(rank, 31, op="broadcast" if rank == 2 else "all_reduce") for rank in range(4)]
    assert rows_of(rows, LOOKS) == [("all_reduce/broadcast 31", "ranks 0, 1, 2 and 3", "", "")]


def test_a_message_whose_sender_has_not_sent() -> None:
    rows = [message(1, "recv", 0, 5), message(0, "send", 1, 4, state="completed")]
    assert rows_of(rows, LOOKS) == [("message 5 from rank 0 to rank 1", "rank 1", "rank 0", "")]


def test_a_message_whose_sender_went_on_is_posted_by_both() -> None:
    rows = [message(1, "recv", 0, 5), message(0, "send", 1, 5, state="completed")]
    assert rows_of(rows, LOOKS) == [("message 5 from rank 0 to rank 1", "ranks 0 and 1", "", "")]


def test_a_message_without_a_common_number_blames_nobody() -> None:
    rows = [message(1, "recv", 0, 1 << 40)]
    assert rows_of(rows, LOOKS) == [("message from rank 0 to rank 1", "rank 1", "", "rank 0")]


def test_a_message_that_is_neither_sent_nor_received() -> None:
    rows = [message(1, "coalesced", 0, 5), message(0, "coalesced", 1, 5, state="completed")]
    assert rows_of(rows, LOOKS) == [("message 5 from rank 0 to rank 1", "ranks 0 and 1", "", "")]
