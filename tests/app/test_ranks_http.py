"""The routes of the ranks page, in process."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

from app.hub import Hub
from app.links import View
from app.pages import ranks as page
from app.server import make_app
from app.views.scales import IN_NOISE, METRICS
from tests.app.in_process import Client
from tests.app.ranks_helpers import unpacked

RECORDED = Path(__file__).parents[2] / "sample_traces" / "recorded"
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


def test_a_map_is_pooled_to_the_size_asked_for(client):
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
        ("grid", {"metric": "<script>"}, "there is no metric '<script>'; take one of slowdown"),
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
