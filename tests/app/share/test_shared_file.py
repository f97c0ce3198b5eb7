"""The shared file: that it is small, named after what it shows, and served; `rankscope export`."""

from __future__ import annotations

import json
import re

import pytest

from app.analysis.diagnosis import diagnosis_of
from app.cli import main
from app.commands.link_argument import view_of
from app.runs.hub import Hub
from app.server import make_app
from app.settings import Settings, Token
from app.share.collected_view import DETAILS, collect
from app.share.shared_file import MOST_BYTES, shared_file
from app.share.shown_view import shown_view
from app.view_state import View
from ingest.errors import UserError
from ingest.run import Run
from tests.app.in_process import ADDRESS, Client
from tests.app.share.page_parser import Parsed, meta_of, page_of
from tests.runs_builder import two_rank_run
from tests.waiting import wait_until


def test_the_link_back_is_there_only_with_a_public_address(hub):
    view = View("slow", "timeline", rank=5)
    there = Parsed(shared_file(hub, view, "https://hub.example.org/p/").content.decode())
    links = [a["href"] for name, a in there.tags if name == "a"]
    assert links == ["https://hub.example.org/p/run/slow/timeline?rank=5"]
    assert not [1 for name, _ in Parsed(page_of(hub, run="slow")).tags if name == "a"]


def test_a_big_view_is_coarser_and_says_so(hub):
    finest = shared_file(hub, View("slow")).content
    assert len(finest) < MOST_BYTES == 2_000_000
    assert "coarser" not in finest.decode()
    smaller = shared_file(hub, View("slow"), most=len(finest) - 1000).content
    assert len(smaller) <= len(finest) - 1000
    assert "coarser than on the live page" in smaller.decode()
    with pytest.raises(UserError, match="coarsest"):
        shared_file(hub, View("slow"), most=1000)


def test_coarser_and_later_files_read_the_pictures_only_once(hub, monkeypatch):
    asked = []
    ask = Run.ask

    def counted(run, name, **given):
        asked.append(name)
        return ask(run, name, **given)

    monkeypatch.setattr(Run, "ask", counted)
    view = View("slow", "timeline", ranks=(1, 2), steps=(6, 7), metric="compute")
    with pytest.raises(UserError, match="coarsest"):  # has tried every level of detail
        shared_file(hub, view, most=1000)
    assert {asked.count(name) for name in ("window_spans", "window_waits")} == {1}
    assert asked.count("rank_cells") == 2  # of the heat map, and of the table
    asked.clear()
    tile = json.loads(Parsed(shared_file(hub, view).content.decode()).scripts[0])["tile"]
    assert tile
    assert not {"window_spans", "window_waits", "rank_cells"} & set(asked)


def test_the_next_file_of_a_running_job_has_what_was_recorded_since(tmp_path):
    run = two_rank_run(tmp_path / "job", num_steps=3)
    hub = Hub(tmp_path)
    try:
        before = collect(hub, shown_view(hub, View("job")), DETAILS[0])
        version = hub.version("job")
        for rank in (0, 1):
            run.step(rank, 3, 300, 400)
            run.span(rank, 3, "forward", 310, 390)
        run.publish()
        assert hub.catch_up("job", 20)
        wait_until(lambda: hub.version("job") > version)
        after = collect(hub, shown_view(hub, View("job")), DETAILS[0])
    finally:
        hub.close()
    assert meta_of(after.tile)["to"] > meta_of(before.tile)["to"]
    assert meta_of(after.tile)["extent"]["last_step"] == 3
    assert meta_of(after.heat)["all_steps"] == [0, 3]


def test_a_run_without_data_is_a_file_with_sentences(hub):
    text = Parsed(page_of(hub, run="empty")).text
    assert "No step is finished yet" in text


def test_what_the_link_names_and_the_run_lacks_is_noted(hub):
    text = Parsed(page_of(hub, run="slow", page="timeline", ranks=(99,), steps=(50, 60))).text
    assert text.count("no rank 99") == 1
    assert "steps 50 to 60" in text
    assert "Step time" in text


def test_over_http(hub):
    settings = Settings(public_url=ADDRESS)
    client = Client(make_app(hub, settings=settings))
    answer = client.get("/api/run/slow/share?page=timeline&rank=5&finding=a%22%0d%0ab")
    unknown = client.get("/api/run/nope/share")
    client.close()
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/html")
    name = re.fullmatch(r'attachment; filename="([^"]+)"', answer.headers["content-disposition"])
    assert name
    assert name[1] == "rankscope-slow.html"
    assert f"{ADDRESS}/run/slow/timeline?rank=5" in answer.text
    assert unknown.status_code == 400
    assert "no run" in unknown.json()["error"]


def test_open_live_has_the_prefix_of_the_server(hub):
    secret = "correct-horse-battery"
    settings = Settings(public_url="https://h.example", base="/x", tokens=(Token(secret),))
    client = Client(make_app(hub, settings=settings))
    headers = {"authorization": f"Bearer {secret}"}
    answer = client.get("/api/run/slow/share?page=ranks", headers=headers)
    client.close()
    assert 'href="https://h.example/x/run/slow/ranks' in answer.text


@pytest.mark.parametrize("linked", ["slow_worker-0-3-7", "slow_worker-0-5-7"])
def test_the_file_is_named_after_what_it_shows(hub, linked):
    (first,) = diagnosis_of(hub, "slow").findings
    client = Client(make_app(hub))
    answer = client.get(f"/api/run/slow/share?finding={linked}")
    client.close()
    assert f'filename="rankscope-slow-{first.id}.html"' in answer.headers["content-disposition"]
    shown = Parsed(answer.text).text
    assert "Rank 5 is slow" in shown
    is_other = "-3-" in linked  # the first step alone may move
    assert ("no longer exists; the page shows “Rank 5 is slow” instead." in shown) == is_other


def test_export_writes_the_file(runs, tmp_path, capsys):
    out = tmp_path / "x.html"
    assert (
        main(["export", str(runs / "slow"), "timeline?rank=2&steps=7..8", "--out", str(out)]) == 0
    )
    assert "x.html" in capsys.readouterr().out
    assert json.loads(Parsed(out.read_text()).scripts[0])["rank"] == 2
    assert [path.name for path in tmp_path.iterdir()] == ["x.html"]


def test_export_names_the_file_after_what_it_shows(runs, hub, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (first,) = diagnosis_of(hub, "slow").findings
    assert main(["export", str(runs / "slow"), "overview?finding=slow_worker-0-3-7"]) == 0
    assert [path.name for path in tmp_path.iterdir()] == [f"rankscope-slow-{first.id}.html"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["timeline?rank=two"], "link's field rank cannot be used"),
        (["--out", "/nonexistent/x.html"], "cannot be written"),
    ],
)
def test_export_prints_what_is_wrong(runs, capsys, arguments, message):
    assert main(["export", str(runs / "slow"), *arguments]) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "view"),
    [
        ("", View("r")),
        ("timeline?rank=5", View("r", "timeline", rank=5)),
        ("http://host:8050/run/other/ranks?rank=1", View("r", "ranks", rank=1)),
        ("https://h/a/proxy/8050/run/other/timeline?t=1..2", View("r", "timeline", t=(1, 2))),
        ("/run/x/overview", View("r")),
        ("http://host:8050/run/other?rank=1", View("r", rank=1)),
    ],
)
def test_a_view_of_a_link_or_its_end(text, view):
    assert view_of(text, "r") == (view, [])
