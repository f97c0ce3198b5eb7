"""The list of runs: the row of each, over HTTP and on the page."""

from __future__ import annotations

import json
import time

import pytest

from app.pages import runs as page
from app.server import make_app
from app.view_state import View
from tests.app.boards import hub_with_board, settled
from tests.app.in_process import Client
from tests.runs_builder import T0, RunBuilder, two_rank_run
from trace_hooks.layout import ParallelLayout

NS = 10**9


@pytest.fixture
def hub(tmp_path, quick_board):
    with hub_with_board(tmp_path) as hub:
        yield hub


def ended(builder, status="finished", error=None, ts_ns=T0 + NS):
    builder.rank_files(end={"ts_ns": ts_ns, "status": status, "error": error})


def test_the_cells_of_a_row(hub, tmp_path):
    builder = two_rank_run(tmp_path / "a", num_steps=3)
    ended(builder)
    row = settled(hub)["a"]
    assert (row.state, row.ended, row.attempts, row.layout) == ("finished", "finished", 1, "tp 2")
    assert (row.num_ranks, row.world_size, row.num_hosts) == (2, 2, 1)
    assert (row.first_step, row.last_step, row.num_steps) == (0, 2, 3)
    assert row.step_ms == pytest.approx(0.1)
    assert row.age_s == pytest.approx((time.time_ns() - T0 - NS) / NS, abs=60)
    assert row.num_bytes > 0


@pytest.mark.parametrize(
    ("status", "error", "message"),
    [
        ("failed", "CUDA out of memory", "rank 0 and 1 more failed: CUDA out of memory"),
        ("failed", None, "rank 0 and 1 more failed: an error"),
        ("stopped", None, "stopped by a signal"),
        ("finished", None, "finished"),
    ],
)
def test_how_a_run_ended(hub, tmp_path, status, error, message):
    ended(two_rank_run(tmp_path / "a"), status, error)
    assert settled(hub)["a"].ended == message


def test_an_import_is_finished(hub, tmp_path):
    two_rank_run(tmp_path / "a")
    RunBuilder(tmp_path / "a", 2, ParallelLayout.from_sizes(tp=2), source="kineto")
    row = settled(hub)["a"]
    assert (row.state, row.ended) == ("finished", None)


def test_the_list_over_http(hub, tmp_path):
    two_rank_run(tmp_path / "<script>alert(1)<")
    settled(hub)
    client = Client(make_app(hub))
    answer = client.get("/api/runs")
    client.close()
    assert answer.status_code == 200
    assert answer.json()["runs"][0]["name"] == "<script>alert(1)<"


def options_of(component):
    view = component.children[0]
    return json.loads(getattr(view, "data-options"))


def test_the_page_comes_with_its_rows(hub, tmp_path):
    two_rank_run(tmp_path / "a")
    settled(hub)
    rendered = page.render(hub, View())
    assert [row["name"] for row in options_of(rendered)["rows"]] == ["a"]
    assert not rendered.children[1].open


def test_an_empty_folder_says_what_to_do(hub, tmp_path):
    rendered = page.render(hub, View())
    how_to = rendered.children[1]
    assert how_to.open
    text = json.dumps(how_to.to_plotly_json(), default=lambda part: part.to_plotly_json())
    for way in ("torchrun", "th.start", "rankscope demo", "rankscope import", str(tmp_path)):
        assert way in text
