"""What the page Stuck shows of a run, as plain values."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from app.analysis.stuck_page import can_be_stuck, stuck_page
from app.runs.hub import Hub
from tests.runs_builder import T0, RunBuilder, two_rank_run
from tests.stuck_runs import QUIET_S, QUOTED, SCRIPT, SECOND, TRACEBACK, failed_run, stuck_run


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    runs: Path = tmp_path_factory.mktemp("stuck")
    stuck_run(runs / "missing")
    stuck_run(runs / "circle", circle=True)
    failed_run(runs / "failed")
    two_rank_run(runs / "healthy")
    RunBuilder(runs / "kineto", 2, source="kineto").rank_files()
    opened = Hub(runs)
    yield opened
    opened.close()


def page_of(hub: Hub, name: str) -> dict[str, Any]:
    found = stuck_page(hub, name, None, now_ns=T0 + (QUIET_S + 4) * SECOND)
    json.dumps(found)  # all of it is plain
    return found


def test_a_rank_that_is_missing(hub: Hub) -> None:
    found = page_of(hub, "missing")
    assert found["state"] == "stuck"
    assert (
        found["status"] == "Ranks 0, 1 and 3 wait for rank 2 in all_reduce 31 of group g7 for 20 s."
    )
    assert (found["age_s"], found["waits"][0]["for_s"]) == (3.0, float(QUIET_S))
    assert found["at_s"] - found["since_s"] == QUIET_S
    first = found["findings"][0]
    assert (first["kind"], first["ranks"], first["line"]) == ("missing_rank", [2], "")
    assert first["text"].startswith("Rank 2: its main thread is in prepare")
    assert first["who"] == [f"rank 2 (pp 1, dp 0) on {QUOTED}"]
    assert [row["name"] for row in found["grid"]] == ["pp 0", "pp 1"]


def test_ranks_that_wait_for_each_other(hub: Hub) -> None:
    found = page_of(hub, "circle")
    (circle,) = found["circles"]
    assert [(link["rank"], link["waits_for"]) for link in circle] == [(2, 3), (3, 2)]
    assert found["findings"][0]["kind"] == "group_order_deadlock"


def test_a_failure_brings_its_whole_traceback(hub: Hub) -> None:
    found = page_of(hub, "failed")
    first = found["findings"][0]
    assert (first["kind"], first["ranks"]) == ("first_error", [1])
    assert first["line"] == TRACEBACK
    assert SCRIPT in first["cause"]
    assert first["evidence"][0].startswith("stderr:9")


def test_where_nothing_is_stuck_it_says_what_was_checked(hub: Hub) -> None:
    found = page_of(hub, "healthy")
    assert (found["state"], found["findings"], found["age_s"]) == ("none", [], None)
    assert found["checked"]


def test_which_runs_have_the_page(hub: Hub) -> None:
    assert can_be_stuck(hub, "healthy")
    assert not can_be_stuck(hub, "kineto")
