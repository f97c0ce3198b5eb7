"""The page Model, in process: its routes, its tab, and its answers to damaged requests."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from app.components.topbar import topbar
from app.pages import tabs
from app.view_state import View
from ingest.imports.importer import import_paths
from tests.app.runs_site import RunsSite
from tests.browser.support.runs_made import kineto_file
from tests.health_runs import (
    EXPLODING,
    LOUD_HEAD,
    NONFINITE_STEP,
    NUM_HEADS,
    NUM_LAYERS,
    NUM_STEPS,
    VANISHING,
    health_run,
)
from tests.runs_builder import two_rank_run


class Site(RunsSite):
    """A server in process: a run with statistics, a live one without, an import."""

    def __init__(self, folder: Path) -> None:
        runs = folder / "runs"
        runs.mkdir()
        health_run(runs / "health")
        two_rank_run(runs / "plain")
        self.imported = import_paths([kineto_file(folder / "rank0.json")], runs).name
        super().__init__(runs)

    def recorded(self, run: str) -> Any:
        """What a run has."""
        return self.answer(f"{run}/model/recorded").json()

    def arrays(self, path: str, **params: Any) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """A binary answer about the run with statistics."""
        return self.unpacked(f"health/model/{path}", **params)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with closing(Site(tmp_path_factory.mktemp("model"))) as made:
        yield made


def test_what_was_recorded_stands_in_the_order_of_the_model(site: Site) -> None:
    answer = site.recorded("health")
    names = [tensor["name"] for tensor in answer["tensors"]]
    assert names == ["residual", "mlp", "output", "gradient", "weight", "update", "heads"]
    by_name = {
        tensor["name"]: {s["name"] for s in tensor["statistics"]} for tensor in answer["tensors"]
    }
    assert "update_ratio" in by_name["update"]
    assert "update_ratio" not in by_name["residual"]
    assert by_name.pop("heads") == {"max_logit", "entropy"}
    assert not any(names & {"max_logit", "entropy"} for names in by_name.values())
    assert site.recorded("plain") == {"tensors": [], "has_frames": False, "can_record": True}
    assert site.recorded(site.imported)["can_record"] is False


def test_the_map_has_a_row_for_each_layer_and_the_values_of_the_question(site: Site) -> None:
    arrays, meta = site.arrays("health", tensor="residual", statistic="rms")
    assert (meta["height"], meta["width"], meta["is_cut"]) == (NUM_LAYERS, NUM_STEPS, False)
    assert [row["layer"] for row in meta["rows"]] == list(range(NUM_LAYERS))
    value_RS = arrays["value"].reshape(NUM_LAYERS, NUM_STEPS)
    rows = site.hub.run("health").ask("tensor_health", tensor="residual").to_pylist()
    for row in rows:
        at = int(np.flatnonzero(arrays["first_step"] == row["step"])[0])
        assert value_RS[row["layer"], at] == pytest.approx(row["rms"], rel=1e-6)
    assert arrays["greatest"][EXPLODING] == value_RS[EXPLODING].max()
    assert arrays["worst_step"][EXPLODING] == NONFINITE_STEP
    assert arrays["last"].tolist() == value_RS[:, -1].tolist()


def test_parts_of_a_layer_are_rows_of_their_own(site: Site) -> None:
    _, meta = site.arrays("health", tensor="gradient", statistic="rms")
    assert [row["key"] for row in meta["rows"][:3]] == ["0.attention", "0.mlp", "1.attention"]
    assert meta["statistic"]["levels"][0]["value"] == 1e-8
    _, meta = site.arrays("health", tensor="output")
    assert [(row["key"], row["part"]) for row in meta["rows"]] == [("-1.embedding", "embedding")]


def test_attention_heads_are_rows_of_their_own(site: Site) -> None:
    arrays, meta = site.arrays("health", tensor="heads", statistic="max_logit")
    assert meta["height"] == NUM_LAYERS * NUM_HEADS
    loud = EXPLODING * NUM_HEADS + LOUD_HEAD
    assert meta["rows"][loud]["key"] == f"{EXPLODING}.h{LOUD_HEAD}"
    assert arrays["greatest"].argmax() == loud
    assert arrays["greatest"][loud] == 2.0 ** (NONFINITE_STEP / 10)
    assert [level["value"] for level in meta["statistic"]["levels"]] == [1e4, 100.0]
    arrays, _ = site.arrays("health", tensor="heads", statistic="entropy", height=1, width=1)
    assert arrays["value"].tolist() == [0.5]  # the least is the worst
    answer = site.client.get(
        "/api/run/health/model/histogram", params={"tensor": "heads", "row": "0.h0"}
    )
    assert "no histogram of '0.h0'" in answer.json()["error"]


def test_few_pixels_show_the_worst_of_each_block(site: Site) -> None:
    whole, _ = site.arrays("health", tensor="residual", statistic="absmax")
    small, meta = site.arrays("health", tensor="residual", statistic="absmax", height=2, width=3)
    assert (meta["height"], meta["width"], meta["num_steps"]) == (2, 3, NUM_STEPS)
    value_RS = whole["value"].reshape(NUM_LAYERS, NUM_STEPS)
    assert small["value"].reshape(2, 3)[1, 2] == value_RS[3:, 8:].max()
    assert small["first_step"].tolist() == [0.0, 40.0, 80.0]
    assert small["last_step"].tolist() == [30.0, 70.0, 110.0]
    assert small["last"].tolist() == whole["last"].tolist()  # the table is never pooled


def test_steps_narrow_it(site: Site) -> None:
    arrays, meta = site.arrays("health", tensor="residual", steps="40..60")
    assert arrays["first_step"].tolist() == [40.0, 50.0, 60.0]
    arrays, meta = site.arrays("health", tensor="residual", steps="900..901")
    assert (meta["height"] * meta["width"], len(arrays["value"])) == (0, 0)


def test_columns_stand_where_their_steps_are_in_time_and_tokens(site: Site) -> None:
    ask = {"tensor": "residual", "statistic": "absmax"}
    arrays, meta = site.arrays("health", **ask)
    assert meta["axis"] is None
    assert "place" not in arrays
    arrays, meta = site.arrays("health", **ask, axis="time")
    assert meta["axis"] == {"name": "time", "why_not": "", "from_step": 0}
    assert arrays["place"] == pytest.approx(np.arange(NUM_STEPS) * 0.01)  # every 10 ms
    shares, _ = site.arrays("histogram", tensor="gradient", row="0.mlp", axis="time", width=4)
    assert shares["place"] == pytest.approx([0.01, 0.04, 0.07, 0.1])
    arrays, meta = site.arrays("health", **ask, axis="tokens")
    assert meta["axis"] is None, "this run logs no tokens"
    answer = site.client.get("/api/run/health/model/axes").json()["axes"]
    assert [(one["name"], one["why_not"][:27]) for one in answer] == [
        ("time", ""),
        ("tokens", "the run logs no tokens per "),
    ]
    answer = site.client.get("/api/run/plain/model/axes").json()["axes"]
    assert [one["why_not"] for one in answer] == ["", ""]


def test_the_histogram_is_that_of_one_row(site: Site) -> None:
    arrays, meta = site.arrays("histogram", tensor="gradient", row=f"{VANISHING}.mlp")
    share_BS = arrays["share"].reshape(-1, meta["width"])
    assert meta["width"] == NUM_STEPS
    assert share_BS.sum(axis=0) == pytest.approx(np.ones(NUM_STEPS), abs=0.02)
    middles = (share_BS * np.arange(64)[:, None]).sum(axis=0)
    assert np.all(np.diff(middles) < -1), "fainter by 10 ** 0.56 each time: 1.8 bins"
    few, meta = site.arrays("histogram", tensor="gradient", row=f"{VANISHING}.mlp", width=4)
    assert few["share"].reshape(-1, 4)[:, 0] == pytest.approx(share_BS[:, :3].mean(axis=1))


@pytest.mark.parametrize(
    ("path", "params", "sentence"),
    [
        ("health", {}, "tensor is ''"),
        ("health", {"tensor": "<script>"}, "give one of residual"),
        ("health", {"tensor": "residual", "statistic": "nope"}, "residual has no statistic 'nope'"),
        ("health", {"tensor": "residual", "statistic": "entropy"}, "choose one of rms"),
        ("health", {"tensor": "residual", "width": "0"}, "cannot be drawn"),
        ("health", {"tensor": "residual", "height": "99999999"}, "cannot be drawn"),
        ("health", {"tensor": "residual", "steps": "9..3"}, "ends before it begins"),
        ("health", {"tensor": "residual", "axis": "years"}, "give one of step, time, tokens"),
        ("histogram", {"tensor": "residual", "row": "77"}, "no histogram of '77'"),
        ("histogram", {"tensor": "residual", "row": "0", "width": "-4"}, "whole number"),
    ],
)
def test_damaged_parameters_are_explained(
    site: Site, path: str, params: dict[str, str], sentence: str
) -> None:
    answer = site.client.get(f"/api/run/health/model/{path}", params=params)
    assert answer.status_code == 400
    assert sentence in answer.json()["error"]


def test_the_tab_is_there_where_something_is_or_may_come(site: Site) -> None:
    for run, wanted in (("health", True), ("plain", True), (site.imported, False)):
        shown = json.dumps(
            topbar(site.hub, View(run), "", tabs(site.hub, View(run))).to_plotly_json(),
            default=repr,
        )
        assert ("'Model'" in shown) == wanted, run
    page = View(
        site.imported, "model"
    )  # opened by its link it is a tab, with the reason why it is empty
    assert "'Model'" in json.dumps(
        topbar(site.hub, page, "", tabs(site.hub, page)).to_plotly_json(), default=repr
    )
