"""Sums of a part of the picture, members of a collective, and spans found by name."""

from __future__ import annotations

import pytest

from app.views.timeline.area_sums import area, found, members
from app.views.timeline.window import Window, extent
from ingest.errors import UserError
from ingest.run import open_run
from tests.app.views.timeline.shifted_run import places, shifted_run
from tests.runs_builder import US, collectives_only_run


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    with shifted_run(tmp_path_factory.mktemp("sums") / "run") as opened:
        yield opened


def test_area_sums_by_kind_are_unions_inside_the_window(run):
    sums = area(run, 0, places(run), Window(15 * US, 60 * US), extent(run, 0, [0, 1]))
    time = {kind: [row[k] // US for row in sums["time_ns"]] for k, kind in enumerate(sums["kinds"])}
    assert time["forward"] == [5, 20]
    assert time["tp_comm"] == [30, 0]
    assert time["backward"] == [10, 0]
    assert time["data_wait"] == [0, 10]
    assert time["waiting"] == [30, 0]
    assert sums["waited_for"] == [{"rank": 1, "time_ns": 30 * US}]
    count = {kind: [row[k] for row in sums["count"]] for k, kind in enumerate(sums["kinds"])}
    assert count["forward"] == [0, 1]


def test_members_and_search(run):
    first, last = members(run, 0, 7, 0, None, None)["members"]
    assert (first["rank"], last["rank"], last["is_last"]) == (0, 1, True)
    assert last["aligned_start_ns"] == 70 * US
    have = extent(run, 0, [0])
    assert found(run, 0, [0], "x", have)["num_found"] == 15
    with pytest.raises(UserError, match="name to search for is empty"):
        found(run, 0, [0], " ", have)


def test_sums_and_search_look_at_the_collectives(tmp_path):
    with open_run(collectives_only_run(tmp_path / "only").folder) as run:
        have = extent(run, 0, [0, 1, 2])
        sums = area(run, 0, places(run), Window(10 * US, 50 * US), have)
        time = {
            kind: [row[k] // US for row in sums["time_ns"]] for k, kind in enumerate(sums["kinds"])
        }
        assert time["tp_comm"] == [40, 20, 0]
        assert time["dp_comm"] == [30, 0, 0]
        hits = found(run, 0, [0, 1, 2], "ALL_", have)
        assert hits["num_found"] == 3
        assert [(hit["rank"], hit["begin"]) for hit in hits["spans"]] == [
            (0, 10 * US),
            (1, 30 * US),
            (0, 60 * US),
        ]
