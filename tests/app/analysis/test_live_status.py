"""What the live socket sends about a run."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from app.analysis.live_status import live_status
from app.runs.hub import Hub
from ingest.errors import UserError
from tests.runs_builder import T0, RunBuilder, two_rank_run

WAIT_S = 60.0
NS = 10**9


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[Hub]:
    with closing(Hub(tmp_path)) as hub:
        yield hub


def test_states_are_those_of_the_store(
    hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.runs.index_follower.PASS_GAP_S", 0.05)
    run = two_rank_run(tmp_path / "job")
    for end in (None, {"ts_ns": 5, "status": "finished", "error": None}):
        run.rank_files(end=end)
        hub.catch_up("job", WAIT_S)
        assert live_status(hub, "job").state == hub.run("job").state
    RunBuilder(tmp_path / "empty")
    hub.run("empty")
    assert live_status(hub, "empty").state == hub.run("empty").state == "lost"
    assert live_status(hub, "empty").last_step is None


def test_the_age_of_the_data_grows_and_the_rest_stays(hub: Hub, tmp_path: Path) -> None:
    run = two_rank_run(tmp_path / "job")
    run.rank_files(end={"ts_ns": T0 + 7 * NS, "status": "finished", "error": None})
    hub.run("job")
    now_ns = time.time_ns()
    early, late = (live_status(hub, "job", now_ns + s * NS) for s in (9, 12))
    assert (early.state, early.last_step, early.progress, early.problem) == ("finished", 2, 6, None)
    assert early.version == late.version == hub.version("job")
    assert early.data_age_s is not None
    assert late.data_age_s == pytest.approx(early.data_age_s + 3)
    assert live_status(hub, "job", T0).data_age_s == 0, "never negative"


def test_as_json_the_time_is_text(hub: Hub, tmp_path: Path) -> None:
    two_rank_run(tmp_path / "job")
    hub.run("job")
    content = live_status(hub, "job", T0 + 1).as_json()
    assert (content["run"], content["server_ns"]) == ("job", str(T0 + 1))
    with pytest.raises(UserError, match="no run 'nobody'"):
        live_status(hub, "nobody")
