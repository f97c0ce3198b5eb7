"""The chart of where a step's time goes: one bar per rank or stage."""

from __future__ import annotations

from app.figures.breakdown import COLOURS, MOST_RANKS, PARTS, figure, frame_of


def test_many_ranks_become_stages() -> None:
    rows = [
        {"rank": rank, "pp": rank % 3, **dict.fromkeys(PARTS, 0.0), "compute_ms": 10.0 * (rank % 3)}
        for rank in range(MOST_RANKS + 2)
    ]
    table = frame_of(rows)
    assert list(table.index) == ["stage 0", "stage 1", "stage 2"]
    assert list(table["compute_ms"]) == [0.0, 10.0, 20.0]
    unknown = frame_of([{**row, "pp": None} for row in rows])
    assert list(unknown.index) == ["all ranks"]
    assert len(figure(table, "dark").data) == 1  # parts without time are left out
    assert figure(frame_of([]), "dark").data == ()
    assert set(COLOURS["dark"]) == set(COLOURS["light"])


def test_a_bar_has_the_time_of_each_part_that_takes_any() -> None:
    some = {"compute_ms": 30.0, "waiting_ms": 20.0, "data_wait_ms": 0.01}
    table = frame_of([{"rank": 4, "pp": 1, **dict.fromkeys(PARTS, 0.0), **some}])
    assert list(table.index) == ["rank 4"]
    chart = figure(table, "light")
    shown = {bar.name: (list(bar.y), list(bar.x), bar.marker.color) for bar in chart.data}
    assert shown == {
        "compute": (["rank 4"], [30.0], COLOURS["light"]["backward"]),
        "idle: waiting for a rank": (["rank 4"], [20.0], COLOURS["light"]["wait"]),
    }
    assert figure(table, "none such").data[0].marker.color == COLOURS["dark"]["backward"]


def test_every_segment_has_its_name_in_the_legend_and_no_segment_is_red() -> None:
    parts = dict.fromkeys(PARTS, 10.0)
    table = frame_of([{"rank": 4, "pp": 1, **parts}, {"rank": 5, "pp": 1, **parts}])
    for theme, fault in (("dark", "#FF3B6B"), ("light", "#C20043")):
        chart = figure(table, theme)
        assert [bar.name for bar in chart.data] == [label for label, _, _ in PARTS.values()]
        assert all(bar.showlegend is not False for bar in chart.data)
        assert fault not in {bar.marker.color for bar in chart.data}
