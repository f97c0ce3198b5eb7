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
        "  waits         ranks 0, 1 and 3 in all_reduce 31 of group g7 (dp)",
        "  why         Rank 2: its main thread is in prepare job/train.py:12.",
        "  doing       rank 2: code in prepare job/train.py:12",
        "  doing       ranks 0, 1 and 3: communication in step job/train.py:40",
        "  first line  rank 2: KeyError: 3",
        "  try         py-spy dump --native --pid 4242  # All stacks of rank 2, on node0",
        "",
    ]


def test_a_circle_and_a_rank_without_a_stack() -> None:
    groups = {7: [0, 1], 8: [0, 1]}
    rows = [entered(0, 5), entered(1, 4, "completed")]
    rows += [entered(1, 9, group_id=8), entered(0, 8, "completed", group_id=8)]
    lines = stuck_lines(of_tables(tables(rows, [look(0), look(1, None, process="T")], groups)))
    assert lines[1:5] == [
        "  waits       rank 0 waits for rank 1 in all_reduce 5 of group g7 (dp)",
        "  waits       rank 1 waits for rank 0 in all_reduce 9 of group g8 (dp)",
        "  doing       rank 0: communication in step job/train.py:40",
        "  doing       rank 1: stopped by a signal",
    ]


def test_nothing_is_said_where_nothing_is_stuck() -> None:
    assert stuck_lines(Stuck("none", "", None)) == []


def test_of_a_job_that_is_over_it_says_so_and_no_process_is_asked() -> None:
    signs = [{"rank": rank, "status": "stopped"} for rank in range(4)]
    looks = [*(look(r) for r in (0, 1, 3)), look(2, IN_CODE)]
    lines = stuck_lines(of_tables(tables(WAIT, looks, signs=signs)))
    assert lines[1].startswith("  over        The job has ended; this is what was seen last, at ")
    assert not [line for line in lines if line.startswith("  try")]
