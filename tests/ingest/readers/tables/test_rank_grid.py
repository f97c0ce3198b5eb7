"""Ranks by coordinates, where no file names its own."""

from __future__ import annotations

from ingest.readers.tables.rank_grid import Grid

WHOLE = [{"pp": p, "dp": 0, "tp": t} for t in range(2) for p in range(2)]


def test_a_whole_grid_has_a_layout_and_megatrons_order() -> None:
    grid = Grid(WHOLE, [None] * 4)
    assert grid.ranks == [0, 2, 1, 3]
    assert str(grid.layout) == "pp 2 x dp 1 x tp 2"
    assert len(grid.guesses) == 2


def test_ranks_that_the_files_name_are_kept() -> None:
    grid = Grid(WHOLE, [3, 2, 1, 0])
    assert grid.ranks == [3, 2, 1, 0]
    assert grid.layout is None  # they do not fit the order of coordinates
    assert grid.guesses == [
        "the parallel layout is unknown, because the ranks that were given do not fill a complete "
        "grid; `rankscope layout` can set it"
    ]


def test_a_grid_with_holes_has_no_layout() -> None:
    grid = Grid(WHOLE[:3], [None] * 3)
    assert (grid.ranks, grid.layout) == ([0, 1, 2], None)
