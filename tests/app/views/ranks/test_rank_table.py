"""The table of ranks: sorted, filtered and paged."""

from __future__ import annotations

import pytest

from app.views.ranks.rank_table import PAGE_ROWS, RankRow, matches, page
from ingest.errors import UserError


def row(rank, slowdown=1.0, host=None, pp=0):
    return RankRow(
        rank,
        host or f"node{rank // 8:03}",
        pp,
        rank % 4,
        None,
        0,
        slowdown,
        False,
        1.0,
        1.0,
        1.0,
        1.0,
        None,
        1.0,
        1.0,
    )


def ranks(found):
    return [one["rank"] for one in found["rows"]]


def test_sorted_with_unknown_values_last_and_equal_ones_by_rank():
    rows = [row(0, 1.0), row(1, None), row(2, 1.5), row(3, 1.0)]
    assert ranks(page(rows, {}, "slowdown", "desc")) == [2, 0, 3, 1]
    assert ranks(page(rows, {}, "slowdown", "asc")) == [0, 3, 2, 1]
    assert ranks(page(rows, {}, "bubble_ms", "asc")) == [0, 1, 2, 3]


def test_pages():
    rows = [row(rank) for rank in range(12_288)]
    shown = page(rows, {}, "rank", "asc", number=3)
    assert ranks(shown) == list(range(3 * PAGE_ROWS, 4 * PAGE_ROWS))
    assert (shown["num_pages"], shown["num_rows"]) == (246, 12_288)
    last = page(rows, {}, "rank", "asc", number=99_999)
    assert (last["page"], ranks(last)[-1]) == (245, 12_287)
    assert 777 in ranks(page(rows, {}, "rank", "asc", find=777))


@pytest.mark.parametrize(
    ("text", "fits"),
    [
        ("", True),
        ("13", True),
        ("1", False),
        ("rank=8-15", True),
        ("rank=0-7", False),
        ("pp=2", True),
        ("pp=1", False),
        ("cp=0", False),
        ("node001", True),
        ("NODE", True),
        ("pp=2, node001", True),
        ("pp=2 node002", False),
        ("<script>", False),
        ("pp=", False),
    ],
)
def test_filter(text, fits):
    assert matches(row(13, pp=2), text) is fits


def test_states_stand_next_to_the_ranks_and_can_be_sorted_by():
    rows = [row(0), row(1)]
    shown = page(rows, {0: "running", 1: "lost"}, "state", "asc")
    assert [(one["rank"], one["state"]) for one in shown["rows"]] == [(1, "lost"), (0, "running")]


@pytest.mark.parametrize(("sort", "direction"), [("rank; DROP", "asc"), ("rank", "up")])
def test_a_column_that_there_is_not_is_a_sentence(sort, direction):
    with pytest.raises(UserError, match="the table cannot be sorted by"):
        page([row(0)], {}, sort, direction)
