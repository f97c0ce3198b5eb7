"""The overview without a browser: numbers and baselines, tiles, breakdown, callbacks."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest

from app.analysis.diagnosis import diagnosis_of
from app.analysis.kpis import scope_of
from app.components.breakdown import breakdown
from app.components.kpi_tiles import line_svg, pooled, sparkline, tiles
from app.dash_shell import make_dash
from app.figures.breakdown import COLOURS, MOST_RANKS, PARTS, figure, frame_of
from app.pages import overview
from app.runs.hub import Hub
from app.share.collected_view import DETAILS, collect
from app.share.shown_view import shown_view
from app.view_state import View
from app.views.run.kpis import (
    Kpi,
    Scope,
    kpis,
)
from diagnosis.findings import Diagnosis, Verdict
from ingest.run import open_run
from sample_traces import RECORDED
from tests.app.pages_in_process import call, having, plain_text, text_of
from tests.runs_builder import RunBuilder, two_rank_run


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    runs = tmp_path_factory.mktemp("overview")
    for name in ("slow_rank", "healthy"):
        shutil.copytree(RECORDED / name, runs / name)
    two_rank_run(runs / "two", num_steps=12)
    RunBuilder(runs / "begun").rank_files()
    opened = Hub(runs)
    yield opened
    opened.close()


def at(address: dict[str, str]) -> dict[str, Any]:
    """What a browser that is there gives to a callback."""
    return {
        "view__data": address,
        "url__pathname": address["path"],
        "url__search": address["search"],
    }


def numbers(hub: Hub, name: str, scope: Scope = Scope()) -> dict[str, Kpi]:  # noqa: B008
    return {kpi.key: kpi for kpi in kpis(hub.run(name), None, scope)}


def test_the_numbers_of_a_known_run(hub: Hub) -> None:
    """100 us steps: forward and backward 80 less the all-reduce of 30 (rank 1: 10), data 10."""
    by_key = numbers(hub, "two")
    assert (by_key["step_time"].value, by_key["step_time"].unit) == ("0.1", "ms")
    assert by_key["step_time"].detail == "as in steps 2 to 6"
    assert by_key["exposed_comm"].value == "20.0"  # (30 + 10) / 2 of 100
    assert by_key["exposed_comm"].extra == "TP 20.0"
    assert by_key["bubble"].value == "10.0"  # rank 0 waits 20 of 100, rank 1 nothing
    assert by_key["time_lost"].value == "10.0"  # the same 20 us of 2 x 100
    assert "mfu" not in by_key  # no peak is known
    assert "hook_cost" not in by_key  # no heartbeat


def test_the_bubble_tile_separates_host_work(tmp_path: Path) -> None:
    builder = two_rank_run(tmp_path / "saves", num_steps=0)
    builder.group(7, [0, 1], "tp")
    for step in range(7):
        at = step * 100.0
        for rank in range(2):
            builder.step(rank, step, at, at + 100)
            builder.span(rank, step, "forward", at, at + 50)
            start = at + 50 + 20 * rank  # rank 0 waits 20 us for rank 1
            builder.span(rank, step, "tp_comm", start, at + 80, group_id=7, coll_seq=step)
            builder.collective(rank, step, 7, step, start, at + 80)
            builder.span(rank, step, "checkpoint", at + 80, at + 90)
    builder.publish()
    with open_run(builder.folder) as run:
        (bubble,) = [kpi for kpi in kpis(run, None, Scope()) if kpi.key == "bubble"]
    assert bubble.value == "20.0"
    assert bubble.extra == "10.0 late ranks, 10.0 host work"


def test_a_run_without_a_finished_step_says_so(hub: Hub) -> None:
    by_key = numbers(hub, "begun")
    assert set(by_key) == {"heard"}
    assert by_key["heard"].value == "0 / 2"  # started years ago, nothing came: lost
    assert by_key["heard"].tone == "bad"
    row = tiles(list(by_key.values()))
    assert "No step is finished yet" in text_of(row)
    assert having(row, className="sentence")


def test_live_page_and_shared_file_compare_with_the_same_steps(
    hub: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A finding that is over counts too: its slow steps are no baseline."""
    diagnosis = diagnosis_of(hub, "slow_rank")
    over = replace(diagnosis.findings[0], severity="past", ongoing=False, first_step=7)
    monkeypatch.setattr(
        "app.analysis.kpis.diagnosis_of", lambda *_: Diagnosis((Verdict("a", (over,)),))
    )
    view = View("slow_rank", steps=(11, 13))
    assert scope_of(Diagnosis((Verdict("a", (over,)),)), view) == Scope((11, 13), 7)
    page, file = overview.render(hub, view), collect(hub, shown_view(hub, view), DETAILS[-1])
    (step_time,) = [kpi for kpi in file.kpis if kpi.key == "step_time"]
    assert step_time.baseline_text == "steps 2 to 6"
    assert step_time.detail in text_of(page)


def test_chosen_steps_are_what_is_shown(hub: Hub) -> None:
    first = numbers(hub, "slow_rank", Scope((0, 0)))["step_time"]
    newest = numbers(hub, "slow_rank")["step_time"]
    assert first.value != newest.value
    assert first.detail == "too few steps to compare"


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
    assert attributes["aria-label"].startswith("Step <b>time from step 3 to 4: 1 to 2")
    assert "<b>" not in unquote(attributes["style"]["maskImage"])
    assert sparkline(Kpi("x", "y", "1", "", "", "")) is None


def test_the_page_points_the_pictures_at_the_finding(hub: Hub) -> None:
    page = overview.render(hub, View("slow_rank"))
    (timeline,) = having(page, data_view="finding-timeline")
    options = json.loads(timeline.to_plotly_json()["props"]["data-options"])
    assert options["ranks"] == [1, 5]
    assert options["rank"] == 5
    assert options["steps"][0] in range(4, 8)
    assert having(page, data_view="grid")
    assert having(page, data_view="heat")
    calm = overview.render(hub, View("healthy"))
    (timeline,) = having(calm, data_view="finding-timeline")
    assert json.loads(timeline.to_plotly_json()["props"]["data-options"]) == {"compact": True}
    nothing = overview.render(hub, View("begun"))
    assert not having(nothing, data_view="finding-timeline")  # there is no lane to ask for
    assert "appear here with the first span" in text_of(nothing)


def test_the_callbacks_follow_the_run_and_the_address(hub: Hub) -> None:
    server = make_dash(hub, "").server
    ask = "kpi-place.children,overview-timeline.children"
    address = {"path": "/run/slow_rank/overview", "search": ""}
    answer = call(server, ask, "pulse.data", url__pathname=address["path"], url__search="")
    assert answer is not None  # a page that has just come, before the browser sent its address
    assert "Lost to stragglers" in plain_text(answer["kpi-place"]["children"])
    shown = answer["overview-timeline"]["children"]
    again = call(server, ask, "pulse.data", view__data=address, overview_timeline__children=shown)
    assert again is not None
    assert "overview-timeline" not in again  # the same finding: the picture is left alone
    elsewhere = {"path": "/run/slow_rank/ranks", "search": ""}
    assert call(server, ask, "pulse.data", **at(elsewhere)) == {}


def test_the_breakdown_adds_up_and_has_a_table(hub: Hub) -> None:
    tree, caption = breakdown(hub, View("slow_rank"), "light")
    assert caption == "mean of steps 0 to 13"
    assert breakdown(hub, View("slow_rank", steps=(7, 7)), "light")[1] == "mean of step 7"
    (graph,) = [part for part in having(tree) if type(part).__name__ == "Graph"]
    names = {bar.name for bar in graph.figure.data}
    assert {"compute", "TP communication", "waiting for a late rank"} <= names
    assert "rank 5" in text_of(tree)
    nothing, caption = breakdown(hub, View("begun"), "dark")
    assert (text_of(nothing), caption) == ("No step is finished yet.", "")


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


def test_the_breakdown_is_drawn_when_it_was_seen(hub: Hub) -> None:
    server = make_dash(hub, "").server
    ask = "breakdown.children,breakdown-said.children,breakdown.className"
    address = {"path": "/run/healthy/overview", "search": "?steps=3..5"}
    early = call(server, ask, "pulse.data", **at(address))
    assert early is None or "children" not in early.get("breakdown", {})
    answer = call(
        server,
        ask,
        "breakdown-seen.data",
        **at(address),
        breakdown_seen__data=True,
        theme__data="light",
    )
    assert answer is not None
    assert answer["breakdown-said"]["children"] == "mean of steps 3 to 5"
