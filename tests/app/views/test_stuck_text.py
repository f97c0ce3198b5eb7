"""Where a stuck job stands, in the terminal."""

from __future__ import annotations

from dataclasses import replace

from app.views.stuck import Stuck, of_tables
from app.views.stuck_text import stuck_lines
from tests.diagnosis.stuck.stuck_tables import IN_CODE, entered, look, tables

WAIT = [entered(rank, 31) for rank in (0, 1, 3)] + [entered(2, 30, "completed")]


def test_ten_lines_say_who_is_waited_for() -> None:
    found = of_tables(tables(WAIT, [*(look(r) for r in (0, 1, 3)), look(2, IN_CODE)]))
    last = {"who": "rank 2", "text": "Traceback (most recent call last):\nKeyError: 3\n"}
    assert stuck_lines(replace(found, lines=(last,))) == [
        "STUCK  Ranks 0, 1 and 3 wait for rank 2 in all_reduce 31 of group g7 (dp) for 9 s.",
        "  waits       rank 2 is waited for by",
        "  waits         ranks 0, 1 and 3 in all_reduce 31",
        "  doing       rank 2: code in prepare job/train.py:12",
        "  doing       ranks 0, 1 and 3: communication in step job/train.py:40",
        "  first line  rank 2: KeyError: 3",
        "  try         py-spy dump --native --pid 4242  # All stacks of rank 2, on node0",
        "",
    ]


def test_nothing_is_said_where_nothing_is_stuck() -> None:
    assert stuck_lines(Stuck("none", "", None)) == []
