"""The what-if page, in process: its routes, its tab, its sentence where there is no analysis."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
import yaml

from app.components.topbar import topbar
from app.pages import tabs
from app.view_state import View
from app.views.whatif.analysis import can_replay, stop_here, whatif_of
from diagnosis.whatif.causes import causes
from ingest.imports.importer import import_paths
from ingest.stopping import Interrupted, Stop
from sample_traces import RECORDED
from sample_traces.generate.job import SyntheticJob
from sample_traces.generate.straggler_trace import MegatronJob, straggler_trace
from sample_traces.generate.tables.write import generate
from tests.app.runs_site import RunsSite

SLOW = MegatronJob(pp=3, dp=4, tp=2, num_steps=6, slow=((1, 2, 1.6),))
ONE_STAGE = MegatronJob(pp=1, dp=40, num_steps=3, slow=((0, 7, 1.5),))


def imported(job: MegatronJob, scratch: Path, runs: Path) -> str:
    """A trace in the StragglerAnalysis schema, imported; the run's name."""
    scratch.mkdir()
    pq.write_table(straggler_trace(job), scratch / "trace-X.parquet")
    (scratch / "meta-X.yaml").write_text(yaml.safe_dump(job.metadata))
    return import_paths([scratch / "trace-X.parquet", scratch / "meta-X.yaml"], runs).name


class Site(RunsSite):
    """A server in process, and its runs by what they are."""

    def __init__(self, folder: Path) -> None:
        runs = folder / "runs"
        shutil.copytree(RECORDED / "slow_rank", runs / "slow_rank")
        generate(SyntheticJob(num_ranks=4, pp=2, num_steps=3, level="steps"), runs / "sums")
        self.slow = imported(SLOW, folder / "slow", runs)
        self.one_stage = imported(ONE_STAGE, folder / "one stage", runs)
        super().__init__(runs)

    def get(self, run: str, path: str = "", **params: Any) -> Any:
        """A JSON answer that must be there."""
        return self.answer(f"{run}/what-if{path}", **params).json()

    def replay(self, run: str, **params: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        """Arrays and meta of a replayed step."""
        return self.unpacked(f"{run}/what-if/replay", **params)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with closing(Site(tmp_path_factory.mktemp("what-if"))) as made:
        yield made


def test_the_numbers_are_those_of_the_command_line(site: Site) -> None:
    answer = site.get(site.slow)
    metrics = whatif_of(site.hub.run(site.slow)).metrics
    for name in ("S", "T_base_s", "T_s", "T_ideal_s", "fidelity", "S_t", "M_W", "M_S"):
        assert answer[name] == getattr(metrics, name), name
    assert answer["S_w"] == metrics.S_w_PD.tolist()
    assert answer["members"] == 1
    assert answer["worst"][0] == {
        "rank": answer["rank"][1][2],
        "stage": 1,
        "dp": 2,
        "value": answer["S_w"][1][2],
    }
    assert [one["value"] for one in answer["worst"]] == sorted(metrics.S_w.values(), reverse=True)
    assert np.array(answer["rank"]).shape == (3, 4)
    assert answer["M_W_ranks"] == [answer["rank"][1][2]]
    assert answer["steps"] == list(range(6))
    assert answer["S"] > 1.3


def test_a_cell_of_several_ranks_leads_to_the_slowest(site: Site) -> None:
    answer = site.get("slow_rank")
    metrics = whatif_of(site.hub.run("slow_rank")).metrics
    assert (answer["members"], answer["workers"], len(answer["worst"])) == (2, 8, 8)
    assert answer["rank"][1][0] == answer["worst"][0]["rank"] == 5
    assert answer["S_w"][1][0] == answer["worst"][0]["value"] == metrics.S_w[5]
    assert answer["M_W_ranks"] == [5]


def test_the_worst_workers_are_named_first(site: Site) -> None:
    answer = site.get(site.one_stage)
    metrics = whatif_of(site.hub.run(site.one_stage)).metrics
    assert sorted(answer["M_W_ranks"]) == list(metrics.M_W_ranks)
    assert len(answer["M_W_ranks"]) == 2
    assert answer["M_W_ranks"][0] == answer["worst"][0]["rank"] == answer["rank"][0][7]


def test_chosen_steps_narrow_it(site: Site) -> None:
    answer = site.get(site.slow, steps="2..3")
    assert answer["steps"] == [2, 3]
    assert answer["S"] != site.get(site.slow)["S"]
    assert site.get("slow_rank", steps="4..6")["steps"] == [4, 5, 6]
    none = site.get("slow_rank", steps="900..901")
    assert none["reason"].startswith("none of the steps 900 to 901 is finished")
    none = site.get("slow_rank", steps="900..900")
    assert none["reason"].startswith("step 900 is not finished on all ranks yet")
    assert "no operations" in site.get(site.slow, steps="900..901")["reason"]


def test_causes_name_the_slow_worker_and_how_much_longer_steps_are_with_it(site: Site) -> None:
    answer = site.get(site.slow, "/causes")
    first = answer["causes"][0]
    assert first["kind"] == "slow_worker"
    assert first["ranks"] == [site.get(site.slow)["rank"][1][2]]
    assert 0.1 < first["cost_s"] / site.get(site.slow)["T_s"] < 1
    assert "baseline" in answer["not_identifiable"]


def test_a_step_is_replayed_on_the_lanes_of_the_busiest_replica(site: Site) -> None:
    arrays, meta = site.replay(site.slow, step=4)
    assert [(lane["stage"], lane["dp"]) for lane in meta["lanes"]] == [(0, 2), (1, 2), (2, 2)]
    assert meta["step"] == 4
    assert meta["dp"] == 2
    assert set(arrays["lane"].tolist()) == {0, 1, 2}
    assert arrays["ideal_end_s"].max() == pytest.approx(meta["T_ideal_s"], rel=1e-5)
    assert 0.98 * meta["T_s"] < arrays["replayed_end_s"].max() <= meta["T_s"]  # of all replicas
    assert meta["T_s"] > 1.3 * meta["T_ideal_s"]


def test_a_rank_chooses_its_replica_also_one_of_a_tensor_parallel_group(site: Site) -> None:
    answer = site.get(site.slow)
    _, meta = site.replay(site.slow, rank=answer["rank"][2][1])
    assert meta["dp"] == 1
    _, meta = site.replay("slow_rank", rank=4)
    assert {"stage": 1, "dp": 0, "rank": 5, "ranks": [4, 5]} in meta["lanes"]
    _, meta = site.replay("slow_rank", rank=999)  # falls back alone
    assert len(meta["lanes"]) == 2


def test_a_step_that_is_not_there_is_the_nearest(site: Site) -> None:
    assert site.replay(site.slow, step=99)[1]["step"] == 5
    assert site.replay(site.slow, step=0, steps="3..4")[1]["step"] == 3
    assert site.replay(site.slow)[1]["step"] in range(6)


def test_a_job_of_one_stage_has_the_busiest_replicas_as_lanes(site: Site) -> None:
    _, meta = site.replay(site.one_stage)
    lanes = [lane["dp"] for lane in meta["lanes"]]
    assert len(lanes) == 32
    assert 7 in lanes
    assert lanes == sorted(lanes)
    left_out = next(dp for dp in range(40) if dp not in lanes)
    rank = site.get(site.one_stage)["rank"][0][left_out]
    _, meta = site.replay(site.one_stage, rank=rank)
    assert left_out in [lane["dp"] for lane in meta["lanes"]]
    assert len(meta["lanes"]) == 32


def test_what_the_data_do_not_allow_is_one_sentence(site: Site) -> None:
    for path in ("", "/causes"):
        assert "micro-batches were not recorded" in site.get("sums", path)["reason"]
    _, meta = site.replay("sums")
    assert "micro-batches were not recorded" in meta["reason"]


@pytest.mark.parametrize(
    ("params", "sentence"),
    [
        ({"steps": "5..2"}, "ends before it begins"),
        ({"steps": "x"}, "FIRST..LAST"),
        ({"attempt": "-1"}, "whole number"),
        ({"step": "1e3"}, "whole number"),
        ({"rank": "no"}, "whole number"),
    ],
)
def test_damaged_parameters_are_explained(
    site: Site, params: dict[str, str], sentence: str
) -> None:
    answer = site.client.get("/api/run/slow_rank/what-if/replay", params=params)
    assert answer.status_code == 400
    assert sentence in answer.json()["error"]


def test_who_leaves_ends_the_replays(site: Site) -> None:
    answer = whatif_of(site.hub.run(site.slow))
    stop = Stop()
    looks = []

    def look() -> None:
        looks.append(stop.called)
        if len(looks) == 2:
            stop()
        stop_here(stop)

    with pytest.raises(Interrupted):
        causes(answer.prepared, look)
    assert looks == [False, False]
    with pytest.raises(Interrupted):
        whatif_of(site.hub.run(site.slow), stop=stop)


def test_the_tab_is_there_where_it_can_say_something(site: Site) -> None:
    for run, wanted in (("slow_rank", True), (site.slow, True), ("sums", False)):
        assert can_replay(site.hub.run(run)) == wanted, run
        shown = json.dumps(
            topbar(site.hub, View(run), "", tabs(site.hub, View(run))).to_plotly_json(),
            default=repr,
        )
        assert ("what-if" in shown) == wanted, run
    page = View(
        "sums", "what-if"
    )  # opened by its link it is a tab, with the reason why it is empty
    assert "what-if" in json.dumps(
        topbar(site.hub, page, "", tabs(site.hub, page)).to_plotly_json(), default=repr
    )
