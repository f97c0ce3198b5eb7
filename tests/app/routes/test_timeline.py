"""The routes of the timeline, in process, on a recorded run."""

from __future__ import annotations

import shutil
from contextlib import closing

import numpy as np
import pytest

from app.analysis.timelines import Timelines
from app.pages import timeline as page
from app.runs.hub import Hub
from app.server import make_app
from app.view_state import View
from sample_traces import RECORDED
from tests.app.in_process import Client
from tests.app.pages_in_process import having
from tests.app.ranks_helpers import unpacked
from tests.runs_builder import T0, RunBuilder, restarted_run

SLOW = 5


@pytest.fixture(scope="module")
def hub(tmp_path_factory):
    runs = tmp_path_factory.mktemp("runs")
    shutil.copytree(RECORDED / "slow_rank", runs / "slow_rank")
    restarted_run(runs / "again")
    hub = Hub(runs)
    yield hub
    hub.close()


@pytest.fixture(scope="module")
def client(hub):
    client = Client(make_app(hub))
    yield client
    client.close()


def got(client, route="timeline", run="slow_rank", **params):
    renamed = {key.rstrip("_"): value for key, value in params.items()}
    return client.get(f"/api/run/{run}/{route}", params=renamed)


def tile(client, **params):
    answer = got(client, **params)
    assert answer.status_code == 200, answer.text
    return unpacked(answer.content)


def refused(client, *args, **params):
    answer = got(client, *args, **params)
    assert answer.status_code == 400
    return answer.json()["error"]


def test_without_parameters_all_lanes_of_the_last_two_finished_steps(client):
    arrays, meta = tile(client)
    assert meta["ranks"] == list(range(8))
    assert meta["lanes"][SLOW]["label"] == "r5 pp1 dp0 tp1"
    last = meta["extent"]["finished_step"]
    assert {last - 1, last} <= set(arrays["step"].tolist()) <= {last - 2, last - 1, last}
    assert arrays["lane"].size > 1000
    assert (meta["state"], meta["attempt"], meta["unknown"]) == ("finished", 0, [])
    assert meta["t0_ns"].isdecimal()


def test_a_rank_chooses_its_pipeline_and_tp_peers(client):
    assert tile(client, rank=SLOW)[1]["ranks"] == [1, 4, 5]


def test_a_window_and_lanes_in_the_requested_order(client):
    arrays, meta = tile(client, ranks="5,0-1", from_=10**9, to=2 * 10**9, width=400)
    assert (meta["ranks"], meta["from"], meta["to"]) == ([5, 0, 1], 10**9, 2 * 10**9)
    assert set(arrays["lane"].tolist()) == {0, 1, 2}
    inside = (arrays["start"] < 1e9) & (arrays["start"] + arrays["dur"] > 0)
    assert inside.all()


def test_the_slow_rank_is_who_the_others_wait_for(client):
    sums = got(client, "timeline/area", steps="8..10", ranks="0-7").json()
    assert sums["waited_for"][0]["rank"] == SLOW


def test_more_pixels_are_more_rectangles_and_merged_ones_are_counted(client):
    coarse, fine = (tile(client, steps="1..11", width=width) for width in (200, 4000))
    assert coarse[0]["lane"].size < fine[0]["lane"].size
    assert coarse[1]["merged"] == np.count_nonzero(coarse[0]["count"] > 1) > 0


def test_members_of_a_collective_on_screen(client):
    arrays, meta = tile(client, ranks="4-5", steps=10)
    kind = meta["kinds"].index("tp_comm")
    span = np.flatnonzero(arrays["span_kind"] == kind)[0]
    group, seq = meta["groups"][arrays["span_group"][span]], int(arrays["span_seq"][span])
    rows = got(client, "timeline/collective", group=group, seq=seq).json()["members"]
    assert sorted(row["rank"] for row in rows) == [4, 5]
    assert sum(row["is_last"] for row in rows) == 1


def test_lanes_and_search(client):
    assert got(client, "timeline/lanes", lanes="dp", rank=SLOW).json()["ranks"] == [5, 7]
    answer = got(client, "timeline/search", name="Attention", ranks="5").json()
    assert answer["num_found"] > 100
    assert {span["rank"] for span in answer["spans"]} == {SLOW}


@pytest.mark.parametrize(
    ("params", "sentence"),
    [
        ({"ranks": "99"}, "there is no rank 99 in this attempt; it has ranks 0 to 7"),
        ({"rank": 99}, "there is no rank 99"),
        ({"ranks": "a"}, "link's field ranks cannot be used"),
        ({"from_": 5, "to": 5}, "ends before it begins"),
        ({"from_": "x", "to": 5}, "from='x' is not a whole number"),
        ({"from_": "-9999999999999999999", "to": 9}, "from=-9999999999999999999 is too great"),
        ({"from_": 0, "to": 2**53}, "to=9007199254740992 is too great"),
        ({"attempt": 10**18}, "link's field attempt cannot be used"),
        ({"steps": "70..71"}, "no step 70 to 71 in attempt 0"),
        ({"attempt": 3}, "this attempt has no ranks"),
        ({"run": "nobody"}, "there is no run 'nobody'"),
    ],
)
def test_what_is_not_there_is_a_sentence(client, params, sentence):
    assert sentence in refused(client, **params)


@pytest.mark.parametrize(
    ("route", "params", "sentence"),
    [
        ("timeline/collective", {"group": "1;drop", "seq": 1}, "is not a whole number"),
        ("timeline/collective", {"group": 1}, "needs group=... and seq=..."),
        ("timeline/search", {"name": ""}, "is empty"),
        ("timeline/lanes", {"lanes": "odd"}, "is not a choice of lanes"),
    ],
)
def test_hostile_questions_are_sentences(client, route, params, sentence):
    assert sentence in refused(client, route, **params)


def test_missing_ranks_are_named_next_to_those_that_are_there(client):
    assert tile(client, ranks="5,99")[1]["unknown"] == [99]


def test_the_page_mounts_the_view(hub):
    assert len(having(page.render(hub, View("slow_rank", "timeline")), data_view="timeline")) == 1


def test_a_job_that_has_recorded_nothing_yet_is_no_mistake(client, tmp_path):
    RunBuilder(tmp_path / "begun", 2).rank_files()
    hub = Hub(tmp_path)
    begun = Client(make_app(hub))
    _, meta = tile(begun, run="begun")
    assert meta["nothing"] == (
        "Rank 0 has recorded nothing yet in attempt 0. The lanes appear with the first step."
    )
    assert "nothing yet" in refused(begun, "timeline/search", run="begun", name="x")
    begun.close()
    hub.close()


def test_lanes_of_a_job_that_is_over_do_not_fill_any_more(tmp_path):
    RunBuilder(tmp_path / "over", 2).rank_files(
        end={"ts_ns": T0, "status": "finished", "error": None}
    )
    with closing(Hub(tmp_path)) as hub:
        found = Timelines(hub).tile("over", View("over"), 100)
    assert found.meta["nothing"] == (
        "No step and no collective of ranks 0, 1 is recorded in attempt 0."
    )


def test_the_widest_window_is_drawn(client):
    _, meta = tile(client, from_=1 - 2**53, to=2**53 - 1)
    assert (meta["from"], meta["to"]) == (1 - 2**53, 2**53 - 1)


@pytest.mark.parametrize(
    ("steps", "attempt"), [("1..2", 0), ("6..9", 1), ("9", 1), ("12..14", 1), (None, 1)]
)
def test_steps_are_those_of_the_newest_attempt_that_has_the_last_of_them(client, steps, attempt):
    """As strip, grid, heat map and table have it: attempt 0 has steps 0 to 9, attempt 1 8 to 14."""
    params = {} if steps is None else {"steps": steps}
    arrays, meta = tile(client, run="again", **params)
    assert meta["attempt"] == attempt
    assert arrays["lane"].size > 0
    zoomed = tile(client, run="again", from_=meta["from"], to=meta["to"], **params)[1]
    assert zoomed["attempt"] == attempt
    lanes = got(client, "timeline/lanes", run="again", lanes="all", **params).json()["ranks"]
    assert lanes == [0, 1]


def test_an_attempt_that_is_named_is_the_one_shown(client):
    assert tile(client, run="again", attempt=0, steps="8..9")[1]["attempt"] == 0
    assert "no step 1 to 2 in attempt 1" in refused(client, run="again", attempt=1, steps="1..2")
