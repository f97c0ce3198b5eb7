"""The routes of the ranks page, in process."""

from __future__ import annotations

import shutil
import time

import numpy as np
import pytest

from app.pages import ranks as page
from app.runs.hub import Hub
from app.server import make_app
from app.view_state import View
from app.views.ranks.empty_reason import NO_STEP_TIMES
from app.views.ranks.scales import IN_NOISE, METRICS
from sample_traces import RECORDED
from tests.app.in_process import Client
from tests.app.ranks_helpers import slow_in_one_step, unpacked
from tests.runs_builder import RunBuilder, collectives_only_run, remove_run, two_rank_run

SLOW = 5


@pytest.fixture(scope="module")
def client(tmp_path_factory):
    runs = tmp_path_factory.mktemp("runs")
    shutil.copytree(RECORDED / "slow_rank", runs / "slow_rank")
    hub = Hub(runs)
    client = Client(make_app(hub))
    yield client
    client.close()
    hub.close()


def got(client, name, run="slow_rank", **params):
    return client.get(f"/api/run/{run}/ranks/{name}", params=params)


def arrays(client, name, **params):
    answer = got(client, name, **params)
    assert answer.status_code == 200, answer.text
    return unpacked(answer.content)


def test_layout_and_values_are_of_the_same_ranks(client):
    places, layout = arrays(client, "layout")
    values, meta = arrays(client, "grid")
    assert list(places["rank"]) == list(range(8))
    assert layout["axes"] == {"pp": 2, "dp": 2, "tp": 2}
    assert {name: len(array) for name, array in values.items()} == dict.fromkeys(values, 8)
    assert values["code"].dtype == np.uint8
    assert list(np.flatnonzero(values["code"] > IN_NOISE)) == [SLOW]
    assert meta["legend"]["metric"]["name"] == "slowdown"


@pytest.mark.parametrize("metric", METRICS)
def test_every_metric_has_a_grid_and_a_map(client, metric):
    values, _ = arrays(client, "grid", metric=metric)
    cells, meta = arrays(client, "heat", metric=metric)
    assert len(values["code"]) == 8
    assert meta["legend"]["metric"]["name"] == metric
    assert len(cells["code"]) == meta["height"] * meta["width"] == len(cells["value"])


def test_a_map_is_pooled_to_the_requested_size(client):
    cells, meta = arrays(client, "heat", height=4, width=3)
    assert (meta["height"], meta["width"]) == (4, 3)
    assert "value" not in cells
    assert cells["code"].reshape(4, 3)[SLOW // 2].max() > IN_NOISE


def test_steps_of_the_grid_follow_the_brush(client):
    _, meta = arrays(client, "grid", steps="3..3")
    assert meta["steps"] == [3, 3]


def test_hosts(client):
    cells, meta = arrays(client, "hosts")
    assert (meta["height"], meta["width"]) == (1, 8)
    assert list(cells["rank"]) == list(range(8))


def test_the_cell_and_the_worst_cells_name_the_slow_rank(client):
    assert got(client, "cell", rows="0..7", steps="0..99").json()["rank"] == SLOW
    worst = got(client, "worst").json()["cells"]
    assert 0 < len(worst) <= 20
    assert worst[0]["rank"] == SLOW


def test_the_table_has_the_slow_rank_first(client):
    answer = got(client, "table").json()
    assert answer["rows"][0]["rank"] == SLOW
    assert answer["rows"][0]["beyond_noise"]
    assert answer["rows"][0]["state"] == "finished"
    assert got(client, "table", filter="pp=0", sort="rank", dir="asc").json()["num_rows"] == 4


@pytest.mark.parametrize(
    ("name", "params", "sentence"),
    [
        ("grid", {"metric": "<script>"}, "there is no metric '<script>'; choose one of slowdown"),
        ("heat", {"metric": "x"}, "there is no metric 'x'"),
        ("grid", {"steps": "5..1"}, "steps is '5..1', which ends before it begins"),
        ("grid", {"steps": "now"}, "steps is 'now'; give FIRST..LAST"),
        ("grid", {"attempt": "-1"}, "attempt is '-1'; give a whole number from 0"),
        ("heat", {"order": "size"}, "rows cannot be ordered by 'size'"),
        ("heat", {"width": "99999999"}, "cannot be drawn"),
        ("heat", {"rows": "1..2; DROP"}, "give FIRST..LAST"),
        ("table", {"sort": "1; DROP TABLE x"}, "the table cannot be sorted by"),
        ("cell", {"rows": "9" * 40 + "..1"}, "give FIRST..LAST"),
    ],
)
def test_a_damaged_parameter_is_a_sentence(client, name, params, sentence):
    answer = got(client, name, **params)
    assert answer.status_code == 400
    assert sentence in answer.json()["error"]


def test_an_unknown_run_is_a_sentence(client):
    answer = got(client, "grid", run="nothing")
    assert answer.status_code == 400
    assert "there is no run 'nothing'" in answer.json()["error"]


def test_the_page_mounts_its_views():
    text = str(page.render(None, View(run="slow_rank", page="ranks")))
    for name in ("metric-picker", "grid", "heat", "rank-table"):
        assert f"'data-view': '{name}'" in text or f"data-view='{name}'" in text, text


@pytest.fixture
def made(tmp_path):
    """A hub of one run that has steps with gaps; rank 1 is slow in the last."""
    slow_in_one_step(tmp_path / "re", slow=1)
    hub = Hub(tmp_path, most_open=1)
    client = Client(make_app(hub))
    yield hub, client
    client.close()
    hub.close()


def slow_cell(client):
    cells, meta = unpacked(got(client, "heat", run="re").content)
    (at,) = np.argwhere(cells["code"].reshape(meta["height"], meta["width"]) > IN_NOISE)
    return int(at[0]), int(cells["first_step"][at[1]])


def test_a_map_is_never_that_of_a_run_that_had_the_name_before(made, tmp_path):
    hub, client = made
    assert slow_cell(client) == (1, 30_000_000)
    remove_run(tmp_path / "re")
    end = time.monotonic() + 60
    while hub.num_open and time.monotonic() < end:
        time.sleep(0.01)
    assert len(hub.cache) == 0, "maps of a run that has gone go with it"
    slow_in_one_step(tmp_path / "re", slow=3)
    assert slow_cell(client) == (3, 30_000_000)


def test_the_maps_of_an_evicted_run_go_with_it(made, tmp_path):
    hub, client = made
    assert slow_cell(client) == (1, 30_000_000)
    assert len(hub.cache) > 0
    slow_in_one_step(tmp_path / "other", slow=2)
    hub.run("other")
    assert len(hub.cache) == 0


def test_grid_table_hosts_and_cell_of_steps_with_gaps(made):
    _, client = made
    cells, meta = unpacked(got(client, "heat", run="re", steps="3..30000000").content)
    assert (meta["width"], list(cells["last_step"])) == (3, [3, 5, 30_000_000])
    grid, meta = unpacked(got(client, "grid", run="re", steps="5..30000000").content)
    assert (meta["steps"], list(grid["value"] > 1.2)) == (
        [5, 30_000_000],
        [False, True, False, False],
    )
    assert got(client, "hosts", run="re").status_code == 200
    assert got(client, "table", run="re", steps="0..30000000").json()["num_rows"] == 4
    cell = got(client, "cell", run="re", rows="0..3", steps="0..30000000").json()
    assert (cell["rank"], cell["step"]) == (1, 30_000_000)


def test_of_a_map_too_large_the_newest_or_the_requested_steps_are_shown(made, monkeypatch):
    monkeypatch.setattr("app.views.ranks.metric_matrix.MOST_CELLS", 8)
    _, client = made
    shown = {}
    for query in (
        "",
        "steps=30000000..30000000",
        "steps=0..2",
        "near=1..2",
        "near=0..9&steps=1..1",
    ):
        params = dict(part.split("=") for part in query.split("&") if part)
        cells, meta = unpacked(got(client, "heat", run="re", **params).content)
        assert meta["is_cut"]
        shown[query] = list(cells["first_step"])
    assert shown == {
        "": [5, 30_000_000],
        "steps=30000000..30000000": [30_000_000],
        "steps=0..2": [1, 2],
        "near=1..2": [1, 2],
        "near=0..9&steps=1..1": [1],
    }
    assert got(client, "worst", run="re").json()["cells"][0]["step"] == 30_000_000
    assert got(client, "worst", run="re", near="1..2").json()["cells"] == []
    answer = got(client, "grid", run="re", steps="0..30000000")
    assert (answer.status_code, "choose 2 steps or fewer" in answer.json()["error"]) == (400, True)


def test_a_run_without_steps_shows_its_ranks_and_why_there_is_no_more(tmp_path):
    collectives_only_run(tmp_path / "only")
    RunBuilder(tmp_path / "begun", 2).rank_files()
    hub = Hub(tmp_path)
    client = Client(make_app(hub))
    _, grid = arrays(client, "grid", run="only")
    _, heat = arrays(client, "heat", run="only")
    _, begun = arrays(client, "grid", run="begun")
    places, _ = arrays(client, "layout", run="only")
    client.close()
    hub.close()
    assert places["rank"].tolist() == [0, 1, 2]
    assert (grid["steps"], heat["width"]) == (None, 0)
    assert grid["nothing"] == heat["nothing"] == NO_STEP_TIMES
    assert begun["nothing"] == "No finished step yet."


def test_a_map_without_colours_says_why(tmp_path):
    """A run that has step times is not reported to have none."""
    two_rank_run(tmp_path / "two", num_steps=4)
    hub = Hub(tmp_path)
    client = Client(make_app(hub))

    def reason(name, **params):
        return arrays(client, name, run="two", **params)[1].get("nothing")

    for name in ("grid", "heat"):
        assert reason(name, metric="step_time") is None
        assert reason(name, metric="exposed_pp").startswith("No values of “Exposed PP comm")
        assert reason(name, attempt=7) == "This run has no attempt 7."
    assert reason("grid", steps="50..60") == "No data for steps 50 to 60."
    _, uncoloured = arrays(client, "grid", run="two", metric="exposed_pp")
    assert (uncoloured["steps"], uncoloured["page_steps"]) == (None, [0, 3])  # of the other panels
    assert arrays(client, "grid", run="two", steps="50..60")[1]["page_steps"] == [50, 60]
    client.close()
    hub.close()
