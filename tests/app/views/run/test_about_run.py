"""The panel about an imported run, and correcting its layout over HTTP."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from app.analysis.diagnosis import diagnosis_of
from app.analysis.imports import import_paths
from app.cli import main
from app.components.about_run import (
    about_panel,
    key_of,
    needs_a_look,
    places,
    unaligned_note,
)
from app.dash_shell import make_dash
from app.pages import overview, timeline
from app.runs.hub import Hub
from app.server import make_app
from app.settings import Role, Settings, Token
from app.view_state import View
from app.views.run.about_run import about_run, clocks, summed
from ingest.layout_correction import correct, layout_of
from ingest.run import open_run
from tests.app.analysis.test_imports import DP_TP, write_job
from tests.app.pages_in_process import call, having, plain_text, text_of
from tests.app.server.asgi import Client
from tests.runs_builder import RunBuilder, two_rank_run

TOKENS = {role: f"{role.name}-token-0123456789" for role in Role}
UNALIGNED = "The clocks of the 2 ranks here are not aligned"


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    """An aligned import of eight ranks, one of two ranks of 128, and a run of the hooks."""
    folder = tmp_path_factory.mktemp("about")
    job = write_job(folder / "job", DP_TP, ranks=list(range(8)), world_size=8)
    for number in range(4):
        (job / f"log{number}.txt").write_text("no trace\n")
    import_paths([job], folder / "runs", name="eight")
    groups = [list(range(128)), [0, 64], [64, 65]]
    two = write_job(folder / "two", groups, ranks=[0, 65], world_size=128, slow_rank=65)
    import_paths([two], folder / "runs", name="two")
    two_rank_run(folder / "runs" / "recorded", num_steps=12)
    opened = Hub(folder / "runs")
    yield opened
    opened.close()


def name_of(hub: Hub, begin: str) -> str:
    return next(name for name in hub.names() if name.startswith(begin))


def test_provenance_guesses_problems_and_clocks_of_an_import(hub: Hub) -> None:
    about = about_run(hub.run(name_of(hub, "eight")))
    assert (about.source, about.is_import, about.ranks) == (
        "torch.profiler (Kineto)",
        True,
        "all 8",
    )
    assert about.num_files == 12
    assert any("rank3.json (" in line and "bytes" in line for line in about.files)
    assert about.content_hash == name_of(hub, "eight").rpartition("-")[2]
    assert about.imported is not None
    assert (about.layout, about.can_be_corrected) == (None, True)
    assert any("layout is unknown" in guess.text for guess in about.guesses)
    (problem,) = about.problems  # four of a kind are one
    assert ("log" in problem.text, problem.num_others, about.num_problems) == (True, 3, 4)
    assert about.clocks.sentence.startswith("The clocks of the 8 ranks are aligned by the ends of")
    assert about.clocks.worst_err_us == max(row.err_us or 0 for row in about.clocks.rows)
    assert [row.rank for row in about.clocks.rows] == list(range(8))


def test_the_panel_of_an_import_stands_first_and_is_open_where_something_was_lost(hub: Hub) -> None:
    view = View(name_of(hub, "eight"))
    first, last = places(hub, view)
    assert (len(first), last) == (2, [])
    (panel,) = having(first, data_part="run")
    assert panel.open is True
    text = text_of(first)
    for part in ("torch.profiler (Kineto), 12 files", "layout unknown", "4 problems", "and 3 more"):
        assert part in text
    (table,) = having(first, data_part="clocks")
    assert text_of(table).count("by the ends of collectives") == 8
    assert having(first, data_part="layout")


def test_a_run_of_the_hooks_has_one_panel_and_it_comes_last(hub: Hub) -> None:
    view = View("recorded")
    first, last = places(hub, view)
    assert (len(first), len(last)) == (1, 1)
    (panel,) = having(last, data_part="run")
    assert panel.open is False
    assert "recorded by hooks" in text_of(last)


def test_two_ranks_of_128_are_reported_as_unaligned_and_no_rank_is_named(hub: Hub) -> None:
    """Rank 65 computes three times as long from the sixth step on: still nobody is named."""
    view = View(name_of(hub, "two"))
    for page in (overview, timeline):
        (note,) = having(page.render(hub, view), role="note")
        assert UNALIGNED in text_of(note)
    run = hub.run(name_of(hub, "two"))
    assert run.ask("slowest_ranks").num_rows == 2  # there are steps, and a rank that stands out
    assert run.ask("late_ranks").num_rows == 0
    assert set(run.ask("waits_by_group").column("wait_caused_ms").to_pylist()) <= {None, 0}
    waits = run.ask("window_waits", ranks="0,65")
    assert set(waits.column("last_rank").to_pylist()) <= {None}
    assert diagnosis_of(hub, run.folder.name).findings == ()
    banner = text_of(overview.render(hub, view))
    assert "Rank 65" not in banner
    assert main(["diagnose", str(run.folder)]) == 4


def test_of_a_great_job_the_panel_comes_after_the_page(
    hub: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.components.about_run.MOST_RANKS_AT_ONCE", 1)
    view = View(name_of(hub, "two"))
    (panel,) = having(places(hub, view)[0], data_view="about")
    assert "loading" in panel.className
    server = make_dash(hub, "").server
    at = {"view__data": None, "url__pathname": view.url(), "url__search": ""}
    outputs = ("about-place.children,clock-note.children", "about-news.data")
    answer = call(server, *outputs, about_news__data={"open": []}, **at)
    assert answer is not None
    assert "layout unknown" in plain_text(answer["about-place"]["children"])
    assert UNALIGNED in plain_text(answer["clock-note"]["children"])


def test_aligned_runs_have_no_note(hub: Hub) -> None:
    for name in (name_of(hub, "eight"), "recorded"):
        assert having(timeline.render(hub, View(name)), role="note") == []


@pytest.mark.parametrize(
    ("sentences", "found"),
    [
        ([], []),
        (["a", "b"], [("a", 0), ("b", 0)]),
        (
            ["x1.json: cut at 5", "x2.json: cut at 7"],
            [("x1.json: cut at 5", 0), ("x2.json: cut at 7", 0)],
        ),
        (
            ["x1.json: cut at 5", "y", "x2.json: cut at 7", "x3.json: cut at 9"],
            [("x1.json: cut at 5", 2), ("y", 0)],
        ),
    ],
)
def test_many_problems_of_a_kind_are_one_that_unfolds(
    sentences: list[str], found: list[tuple[str, int]]
) -> None:
    assert [(problem.text, problem.num_others) for problem in summed(sentences)] == found


def test_a_thousand_problems_are_counted_and_some_listed() -> None:
    (problem,) = summed([f"rank{n}.json: cut at byte {n}" for n in range(1000)])
    assert (problem.num_others, len(problem.others)) == (999, 200)


def test_names_of_strangers_are_text(tmp_path: Path) -> None:
    job = write_job(tmp_path / "job", [[0, 1]], ranks=[0, 1], world_size=2)
    (job / "<img src=x>.txt").write_text("no trace\n")
    with open_run(import_paths([job], tmp_path / "runs")) as run:
        panel = about_panel(about_run(run))
        assert "<img src=x>" in text_of(panel)
        assert having(panel, src="x") == []


def test_what_cannot_be_compared_by_time_is_no_fault(hub: Hub, tmp_path: Path) -> None:
    with open_run(hub.run("recorded").folder) as run:
        run.info["clock"] = "per_step_relative"
        assert unaligned_note(clocks(run)) is None
        assert "again in each step" in clocks(run).sentence


def test_the_panel_follows_news_and_keeps_open_what_was(tmp_path: Path) -> None:
    job = write_job(tmp_path / "job", DP_TP, ranks=list(range(8)), world_size=8)
    folder = import_paths([job], tmp_path / "runs")
    hub = Hub(tmp_path / "runs")
    try:
        server = make_dash(hub, "").server
        path = View(folder.name).url()
        at = {"view__data": {"path": path, "search": ""}, "url__pathname": path, "url__search": ""}
        outputs = ("about-place.children,clock-note.children", "about-news.data")
        shown = key_of(about_run(hub.run(folder.name)))
        news: dict[str, Any] = {"shown": shown, "open": ["run", "layout"]}
        assert call(server, *outputs, about_news__data=news, **at) is None
        correct(hub.run(folder.name), layout_of({"dp": 2, "tp": 4}))
        assert hub.catch_up(folder.name, 20)
        answer = call(server, *outputs, about_news__data=news, **at)
        assert answer is not None
        panel = answer["about-place"]["children"]
        assert "dp 2 x tp 4, corrected by hand" in plain_text(panel)
        text = json.dumps(panel)
        assert text.count('"open": true') == 2
        assert answer["clock-note"]["children"] is None
    finally:
        hub.close()


def test_a_job_that_has_just_begun_keeps_its_panel_folded_and_last(tmp_path: Path) -> None:
    """Its clocks are not known yet, which is nothing to push the pictures down for."""
    RunBuilder(tmp_path / "job", 2).rank_files()
    hub = Hub(tmp_path)
    try:
        about = about_run(hub.run("job"))
        assert not about.is_import
        unaligned = replace(about, clocks=replace(about.clocks, is_unaligned=True))
        assert not needs_a_look(unaligned)
        assert needs_a_look(replace(unaligned, is_import=True))
        first, last = places(hub, View("job"))
        assert "about-place" not in [getattr(part, "id", None) for part in first]
        assert [getattr(part, "id", None) for part in last] == ["about-place"]
    finally:
        hub.close()


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Hub, Client, str]]:
    """A server with a token for each role, and an import whose layout is unknown: so it is left."""
    scratch = tmp_path_factory.mktemp("served")
    job = write_job(scratch / "job", DP_TP, ranks=list(range(8)), world_size=8)
    folder = import_paths([job], scratch / "runs")
    hub = Hub(scratch / "runs")
    tokens = tuple(Token(secret, role) for role, secret in TOKENS.items())
    yield hub, Client(make_app(hub, settings=Settings(tokens=tokens))), folder.name
    hub.close()


def as_role(role: Role) -> dict[str, str]:
    return {"authorization": f"Bearer {TOKENS[role]}"}


BODY = json.dumps({"sizes": {"tp": 4, "dp": 2}, "order": "pp-dp-cp-tp"}).encode()


def test_a_preview_shows_where_each_rank_would_be(served: tuple[Hub, Client, str]) -> None:
    _, client, name = served
    answer = client.get(f"/api/run/{name}/layout", **as_role(Role.viewer)).json()
    assert (answer["layout"], answer["world_size"], answer["num_ranks"]) == (None, 8, 8)
    assert answer["refusal"] is None
    url = f"/api/run/{name}/layout?tp=4&dp=2&order=dp-tp"
    content = client.get(url, **as_role(Role.viewer)).json()
    assert content["places"][5] == [5, {"dp": 1, "tp": 1}]
    assert content["groups_note"] == "The recorded process groups fit: 4 along dp, 2 along tp."
    wrong = client.get(f"/api/run/{name}/layout?tp=2&dp=4", **as_role(Role.viewer)).json()
    assert "6 run along no axis" in wrong["groups_note"]


def test_a_correction_notifies_listeners_and_can_be_undone(served: tuple[Hub, Client, str]) -> None:
    hub, client, name = served
    version = hub.version(name)
    notified: list[tuple[str, int]] = []
    end = hub.listen(lambda run, number: notified.append((run, number)))
    answer = client.post(f"/api/run/{name}/layout", BODY, **as_role(Role.uploader))
    assert answer.status == 200, answer.text
    assert answer.json()["layout"] == "dp 2 x tp 4"
    assert (answer.json()["layout_from"], answer.json()["is_indexed"]) == ("hand", True)
    assert hub.version(name) > version
    assert (name, hub.version(name)) in notified
    end()
    kinds = hub.run(name).index_rows("SELECT DISTINCT kind FROM kind_rollup ORDER BY 1")
    assert [row["kind"] for row in kinds] == ["dp_comm", "tp_comm"]
    undone = client.request("DELETE", f"/api/run/{name}/layout", **as_role(Role.uploader))
    assert (undone.json()["layout"], undone.json()["layout_from"]) == (None, None)
    assert not (hub.run(name).folder / "layout.json").exists()


def test_viewers_and_foreign_pages_change_nothing(served: tuple[Hub, Client, str]) -> None:
    hub, client, name = served
    url = f"/api/run/{name}/layout"
    for method in ("POST", "DELETE"):
        answer = client.request(method, url, BODY, **as_role(Role.viewer))
        assert answer.status == 403
        assert "needs the role uploader" in answer.json()["error"]
        foreign = {**as_role(Role.operator), "origin": "https://evil.example"}
        assert client.request(method, url, BODY, **foreign).status == 403
        assert client.request(method, url, BODY).status == 401
    assert not (hub.run(name).folder / "layout.json").exists()


@pytest.mark.parametrize(
    ("body", "parts"),
    [
        (b"", "not a layout"),
        (b"[]", "not a layout"),
        (b'{"sizes": {"tp": "4"}}', "not a layout"),
        (b'{"sizes": {"tp": 4.5}}', "not a layout"),
        (b'{"sizes": {"tp": 8}, "mesh": [0]}', "not a layout"),
        (b'{"sizes": {"tp": 99999999999999999999999}}', "not a layout|whole number"),
        (b'{"sizes": {"tp": 4}}', "must multiply to 8"),
        (b'{"sizes": {"tp": 8}, "order": "<b>"}', "is not an axis"),
        (b'{"sizes": {"tp": 8}, "order": "' + b"x" * 5000 + b'"}', "no more than 4096 bytes"),
    ],
)
def test_damaged_corrections_are_refused_in_a_sentence(
    served: tuple[Hub, Client, str], body: bytes, parts: str
) -> None:
    hub, client, name = served
    answer = client.post(f"/api/run/{name}/layout", body, **as_role(Role.operator))
    assert answer.status == 400
    assert any(part in answer.json()["error"] for part in parts.split("|"))
    assert not (hub.run(name).folder / "layout.json").exists()


@pytest.mark.parametrize("query", ["tp=x", "tp=-1", "tp=1e3", "zz=2", "tp=8&order=a-b", "tp=3"])
def test_damaged_previews_too(served: tuple[Hub, Client, str], query: str) -> None:
    _, client, name = served
    answer = client.get(f"/api/run/{name}/layout?{query}", **as_role(Role.viewer))
    assert answer.status == 400
    assert answer.json()["error"].count("\n") == 0


def test_an_unknown_run_has_no_layout(served: tuple[Hub, Client, str]) -> None:
    _, client, _ = served
    answer = client.post("/api/run/nobody/layout", BODY, **as_role(Role.operator))
    assert answer.status == 400
    assert "no run 'nobody'" in answer.json()["error"]
