"""The table of where each group of a run without steps stands."""

from __future__ import annotations

from app.components.outstanding import MOST_GROUPS, apart_note, open_fronts, outstanding
from app.view_state import View
from app.views.run.without_steps import Front, Recorded
from tests.app.pages_in_process import having, text_of


def test_where_all_stand_together_nothing_is_apart():
    front = Front("g", "tp", 2, 2, 4, "all_gather", (0, 1), (), None, ())
    text = text_of(outstanding(Recorded(0, 4, 2, (front,)), View("x")))
    assert "0 of 1 groups" in text
    assert "all_gather 4" in text
    assert outstanding(Recorded(0, 4, 2, ()), View("x")) is None


def front(name: str, **more: object) -> Front:
    known = {"axis": "tp", "num_members": 2, "num_open": 1, "seq": 4, "op": "all_reduce"}
    known |= {"behind": (0,), "ahead": (), "ahead_seq": None, "absent": (1,)}
    return Front(name, **(known | more))  # type: ignore[arg-type]


def test_a_row_names_who_is_at_it_who_is_further_on_and_who_has_nothing_open() -> None:
    one = front("g7", num_members=5, ahead=(2, 3), ahead_seq=1234, absent=(9,))
    table = outstanding(Recorded(0, 4, 2, (one,)), View("x", rank=5))
    assert table is not None
    assert "TP g7 all_reduce 4 0 2-3, up to 1,234 9" in text_of(table)
    (link,) = [part.href for part in having(table) if getattr(part, "href", None)]
    assert link == "timeline?ranks=0,2-3,9"
    assert having(table, className="apart")


def test_groups_of_one_member_and_those_that_completed_all_are_left_out() -> None:
    found = (front("open"), front("alone", num_members=1), front("done", seq=None))
    assert [one.name for one in open_fronts(Recorded(0, 4, 2, found))] == ["open"]


def test_more_groups_than_the_table_shows_are_counted() -> None:
    many = [front(f"g{number}") for number in range(MOST_GROUPS + 3)]
    assert (
        apart_note(many)
        == "15 of 15 groups with open collectives are out of sync; 3 more are not shown"
    )
    table = outstanding(Recorded(0, 4, 2, tuple(many)), View("x"))
    assert table is not None
    assert len(having(table, className="apart")) == MOST_GROUPS
