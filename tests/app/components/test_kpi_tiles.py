"""Tiles of key figures: their lines keep spikes, and are described."""

from __future__ import annotations

from urllib.parse import unquote

from app.components.kpi_tiles import line_svg, pooled, sparkline, tiles
from app.views.run.kpi import Kpi
from tests.app.pages_in_process import having, text_of


def test_a_sparkline_keeps_the_spike_and_cuts_the_first_step() -> None:
    assert pooled([1.0, 9.0, 2.0, 3.0], 2) == [9.0, 3.0]
    points = line_svg([5000.0] + [100.0] * 40 + [150.0], 100.0).split("points='")[1].split("'")[0]
    heights = [float(point.split(",")[1]) for point in points.split()]
    assert heights[0] == min(heights)  # cut at the top
    assert heights[1] > heights[0] + 10  # and the rest is not flat against the bottom


def test_what_hardly_changes_is_a_line_in_the_middle() -> None:
    points = line_svg([100.0, 100.4, 100.2] * 9, None).split("points='")[1].split("'")[0]
    heights = [float(point.split(",")[1]) for point in points.split()]
    assert min(heights) > 8
    assert max(heights) < 18
    assert max(heights) - min(heights) < 2


def test_a_sparkline_is_described() -> None:
    kpi = Kpi("x", "Step <b>time", "1", "ms", "", "", series=((3, 1.0), (4, 2.0)), baseline=1.5)
    line = sparkline(kpi)
    assert line is not None
    attributes = line.to_plotly_json()["props"]
    assert attributes["aria-label"].startswith("Step <b>time: 1 in step 3, 2 in step 4; 1.5 in ")
    assert "<b>" not in unquote(attributes["style"]["maskImage"])
    assert sparkline(Kpi("x", "y", "1", "", "", "")) is None


def test_a_tile_has_its_number_with_unit_and_what_it_means() -> None:
    kpi = Kpi("step_time", "Step time", "7.5", "ms", "as before", "Mean.", "bad", extra="TP 2")
    row = tiles([kpi])
    assert text_of(row) == "Step time 7.5  ms as before TP 2"
    (tile,) = having(row, className="kpi panel")
    assert tile.title == "Mean."
    assert having(row, className="detail bad")
    assert not having(row, role="img"), "one value is no line"
