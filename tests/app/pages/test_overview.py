"""The overview without a browser: numbers and baselines, pictures, callbacks."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from app.analysis.diagnosis import diagnosis_of
from app.analysis.kpis import scope_of
from app.components.kpi_tiles import tiles
from app.dash_shell import make_dash
from app.pages import overview
from app.runs.hub import Hub
from app.share.collected_view import DETAILS, collect
from app.share.shown_view import shown_view
from app.view_state import View
from app.views.run.kpi import Kpi
from app.views.run.kpi_baseline import Scope
from app.views.run.kpis import kpis
from diagnosis.findings import Diagnosis, Verdict
from ingest.run import open_run
from tests.app.pages_in_process import call, having, plain_text, text_of
from tests.app.recorded_runs import hub_of_recorded_runs
from tests.runs_builder import RunBuilder, two_rank_run


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    with hub_of_recorded_runs(tmp_path_factory.mktemp("overview")) as hub:
        yield hub


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
    assert by_key["step_time"].detail == "similar to steps 2 to 6"
    assert by_key["exposed_comm"].value == "20.0"  # (30 + 10) / 2 of 100
    assert by_key["exposed_comm"].extra == "TP 20.0\u00a0%"
    assert by_key["bubble"].value == "0.0"  # rank 0 waits 20 of 100 for rank 1: not the schedule
    assert by_key["bubble"].extra == "idle: waiting 10.0\u00a0%"
    assert by_key["time_lost"].value == "10.0"  # the same 20 us of 2 x 100
    assert "mfu" not in by_key  # no peak is known
    assert "hook_cost" not in by_key  # no heartbeat


def test_machines_have_a_place_where_they_may_have_been_sampled(hub: Hub, tmp_path: Path) -> None:
    place = {"data_view": "machine-changes"}
    assert having(overview.render(hub, View("two")), **place)  # hooks may record some yet
    RunBuilder(tmp_path / "imported", source="wrapper").rank_files()
    with closing(Hub(tmp_path)) as other:
        assert not having(overview.render(other, View("imported")), **place)


def test_the_bubble_tile_separates_the_schedule_from_what_is_idle(tmp_path: Path) -> None:
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
    assert bubble.value == "0.0"
    assert bubble.extra == "idle: waiting 10.0, host 10.0, not visible 20.0\u00a0%"


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
    known = scope_of(Diagnosis((Verdict("a", (over,)),)), view, (11, 13))
    assert known == Scope((11, 13), ((7, over.last_step),))
    page, file = overview.render(hub, view), collect(hub, shown_view(hub, view), DETAILS[-1])
    (step_time,) = [kpi for kpi in file.kpis if kpi.key == "step_time"]
    assert step_time.baseline_text == "steps 3 to 6"
    assert step_time.detail in text_of(page)


def test_chosen_steps_are_what_is_shown(hub: Hub) -> None:
    first = numbers(hub, "slow_rank", Scope((0, 0)))["step_time"]
    newest = numbers(hub, "slow_rank")["step_time"]
    assert first.value != newest.value
    assert first.detail == "no baseline to compare with"


def test_the_page_points_the_pictures_at_the_finding(hub: Hub) -> None:
    page = overview.render(hub, View("slow_rank"))
    (timeline,) = having(page, data_view="finding-timeline")
    options = json.loads(timeline.to_plotly_json()["props"]["data-options"])
    assert options["ranks"] == [1, 5, 4, 7]  # the stage before, its TP and its DP peer
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
    texts = plain_text(answer["kpi-place"]["children"])
    assert "Cost of the finding" in texts
    assert "Waiting for late ranks" in texts
    shown = answer["overview-timeline"]["children"]
    again = call(server, ask, "pulse.data", view__data=address, overview_timeline__children=shown)
    assert again is not None
    assert "overview-timeline" not in again  # the same finding: the picture is left alone
    elsewhere = {"path": "/run/slow_rank/ranks", "search": ""}
    assert call(server, ask, "pulse.data", **at(elsewhere)) == {}


def test_the_breakdown_is_drawn_when_it_was_seen(hub: Hub) -> None:
    server = make_dash(hub, "").server
    ask = "breakdown.children,breakdown-note.children,breakdown.className"
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
    assert answer["breakdown-note"]["children"] == "mean of steps 3 to 5"
