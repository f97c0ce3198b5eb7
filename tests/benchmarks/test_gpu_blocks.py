"""Statistics of blocks that take turns, and of memory, on numbers made by hand: the arithmetic of
the kit, no result of a GPU.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.gpu.blocks import OFF, Block, measured, meets, ms_more, percent_more
from benchmarks.gpu.figures import NEEDS_GPU, Figure, NotHere, Place
from benchmarks.gpu.jobs.memory import Memory, Sample
from benchmarks.gpu.parts.memory import figures, growth
from benchmarks.gpu.spread import Spread, spread

MIB = 1 << 20


def turns(*members: tuple[str, float]) -> list[tuple[str, Block]]:
    return [(way, Block(wall, wall / 2, 0.0, None)) for way, wall in members]


def wall(block: Block) -> float:
    return block.wall


def test_a_block_is_compared_with_its_two_neighbours_only() -> None:
    """The device gets slower all the time, which is no cost of a way."""
    blocks = turns((OFF, 100), ("layers", 112), (OFF, 120), ("null", 130), (OFF, 140))
    assert percent_more(blocks, "layers", wall).median == pytest.approx(100 * (112 / 110 - 1))
    assert ms_more(blocks, "null", wall).median == 0


def test_the_figure_of_a_way_is_the_median_of_its_blocks() -> None:
    blocks = turns((OFF, 10), ("a", 11), (OFF, 10), ("a", 90), (OFF, 10), ("a", 12), (OFF, 10))
    measured_ms = ms_more(blocks, "a", wall)
    assert measured_ms == Spread(1.5, 2, 41, 80, 3)


def test_a_way_that_was_not_measured_is_an_error() -> None:
    with pytest.raises(ValueError, match="nothing was measured"):
        percent_more(turns((OFF, 10), ("a", 11), (OFF, 10)), "b", wall)
    assert spread([3.0]) == Spread(3, 3, 3, 3, 1)


@pytest.mark.parametrize(
    ("median", "null", "is_met"),
    [
        (0.10, (-0.05, 0.05), True),
        (0.20, (-0.05, 0.05), False),
        (-0.30, (-0.05, 0.05), True),
        (0.10, (-0.20, 0.20), None),
        (0.44, (-0.20, 0.20), None),
        (0.50, (-0.20, 0.20), False),
    ],
)
def test_an_aim_is_judged_where_the_null_is_narrower_or_the_cost_far_beyond_it(
    median: float, null: tuple[float, float], is_met: bool | None
) -> None:
    own = Spread(median - 0.1, median, median + 0.1, median + 1, 9)
    assert meets(own, Spread(null[0], 0.0, null[1], 1, 9), 0.15) is is_met


def test_a_spread_in_words() -> None:
    text = spread([10.0, 12.0, 11.0]).in_words("%", "blocks")
    assert text == "quartiles 10.5 to 11.5, most 12 %; 3 blocks"


def test_a_block_counts_what_its_steps_take(tmp_path: Path) -> None:
    steps = []
    block = measured(Place("cpu", tmp_path, print), lambda: steps.append(1), 4)
    assert len(steps) == 4
    assert block.wall > 0
    assert block.gpu is None


def memory(rss: list[int], peak: int = 0, dropped: int = 0) -> Memory:
    samples = [Sample(at * 500, one, requested=7, taken=one) for at, one in enumerate(rss)]
    return Memory(samples, peak, peak, dropped)


def test_growth_is_the_slope_once_the_beginning_is_over() -> None:
    samples = memory([0, 900, 1000, 1010, 1020, 1030, 1040])
    assert growth(samples.samples, lambda one: one.rss) == pytest.approx(20)
    assert growth(samples.samples[:1], lambda one: one.rss) == 0


@pytest.mark.parametrize(("more", "holds"), [(0, True), (MIB, True), (MIB + 1, False)])
def test_the_default_level_may_take_nothing_of_the_device(more: int, holds: bool) -> None:
    alone, found = memory([MIB] * 4, peak=100 * MIB), memory([3 * MIB] * 4, 100 * MIB + more)
    given = figures("layers", alone, found, is_promised=True)
    assert given[0].holds is holds
    assert [figure.holds for figure in figures("watch", alone, found, is_promised=False)] == [
        None
    ] * 5
    host = next(one for one in given if "host" in one.name)
    assert host.value == 2
    assert "growth per 1,000 steps 0.00 MiB" in host.note


def test_growth_of_a_short_run_is_not_reported() -> None:
    given = figures("layers", memory([MIB] * 2), memory([MIB] * 2), is_promised=True)
    assert not any("without hooks 0.00" in one.note for one in given)


def test_a_rehearsal_names_what_it_has_no_number_for(tmp_path: Path) -> None:
    shown: list[Figure] = []
    figure = Figure("GPU time", 3.0, "%", holds=False)
    Place("cpu", tmp_path, shown.append).say_of_gpu(figure)
    Place("cuda", tmp_path, shown.append).say_of_gpu(figure)
    assert shown == [Figure("GPU time", NEEDS_GPU), figure]


def test_a_check_that_fails_is_a_figure_and_the_next_one_goes_on(tmp_path: Path) -> None:
    shown: list[Figure] = []
    place = Place("cpu", tmp_path, shown.append)

    def missing() -> None:
        raise NotHere("no compiler")

    def broken() -> None:
        raise RuntimeError("CUDA error: an illegal\nmemory access")

    place.attempt("compile", missing)
    place.attempt("graph", broken)
    assert [(one.value, one.holds) for one in shown] == [
        ("not here: no compiler", None),
        ("RuntimeError: CUDA error: an illegal memory access", False),
    ]
