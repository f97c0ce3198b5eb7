"""What a server keeps of running jobs: frames go with the run whose ranks sent them."""

from __future__ import annotations

import pytest

from app.live.connected_rank import Hello
from app.live.jobs import LiveJobs
from tests.app.live.test_connected_rank import HELLO
from tests.app.live.test_frame_cache import key


def test_the_frames_of_a_forgotten_run_go_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.live.connected_ranks.MOST_RUNS", 2)
    jobs = LiveJobs()
    for run in ("a", "b", "c"):
        jobs.ranks.leave(jobs.ranks.enter(Hello.from_json({**HELLO, "run": run})))
        jobs.frames.put(key(0, run=run), b"x")
    assert list(jobs.ranks.runs) == ["b", "c"]
    assert [cached[0] for cached in jobs.frames] == ["b", "c"]
