"""The step-time strip's data: every step, the slowest kept where many, marks and findings."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace

import numpy as np
import pytest

from app.analysis.diagnosis import diagnosis_of
from app.runs.hub import Hub
from app.server import make_app
from app.views.run.strip import MOST_MARKS, Mark, pooled, rarest_first, strip_of
from sample_traces import RECORDED
from tests.app.in_process import Client
from tests.runs_builder import T0, RunBuilder

HOSTILE = "<script>alert(1)</script>"


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    """The recorded slow rank; `again`: steps 0 to 5, then 4 to 9 after a restart, a checkpoint in
    step 8, an error in step 5, and a note before the first step.
    """
    runs = tmp_path_factory.mktemp("strip")
    shutil.copytree(RECORDED / "slow_rank", runs / "slow_rank")
    builder = RunBuilder(runs / "again", 1)
    for attempt, steps in ((0, range(6)), (1, range(4, 10))):
        for step in steps:
            at = T0 + (attempt * 100 + step) * 10**6
            builder.add("steps", 0, step, attempt, start_ns=at, dur_ns=10**6)
            builder.add("spans", 0, step, attempt, kind="forward", ts_ns=at, dur_ns=10**5)
            if step == 8:
                builder.add(
                    "spans",
                    0,
                    step,
                    attempt,
                    kind="checkpoint",
                    ts_ns=at + 2 * 10**5,
                    dur_ns=5 * 10**5,
                )
        builder.rank_files(attempt)
    builder.add("marks", 0, 5, 1, ts_ns=T0, kind="error", text=HOSTILE)
    builder.add("marks", 0, -1, 0, ts_ns=T0, kind="note", text="begun")
    builder.publish()
    RunBuilder(runs / "begun").rank_files()
    opened = Hub(runs)
    yield opened
    opened.close()


def test_steps_marks_and_restarts(hub: Hub) -> None:
    strip = strip_of(hub.run("again"), diagnosis_of(hub, "again"))
    assert strip.step_P.tolist() == list(range(10))
    assert np.isfinite(strip.ms_P).all()
    assert [(mark.step, mark.kind) for mark in strip.marks] == [
        (0, "note"),
        (4, "restart"),
        (5, "error"),
        (8, "checkpoint"),
    ]
    texts = {mark.kind: mark.text for mark in strip.marks}
    assert texts["restart"] == "Attempt 1 continues from step 4."
    assert texts["checkpoint"].startswith("Checkpoint, ")
    assert texts["error"] == HOSTILE  # as it is: the browser shows it as text


def test_one_attempt_alone(hub: Hub) -> None:
    strip = strip_of(hub.run("again"), diagnosis_of(hub, "again", 0), attempt=0)
    assert strip.step_P.tolist() == list(range(6))
    assert [mark.kind for mark in strip.marks] == ["note"]


def test_a_finding_is_a_stretch(hub: Hub) -> None:
    diagnosis = diagnosis_of(hub, "slow_rank")
    strip = strip_of(hub.run("slow_rank"), diagnosis)
    (stretch,) = strip.stretches
    assert stretch.finding == diagnosis.findings[0].id
    assert (stretch.first, stretch.last) == (diagnosis.findings[0].first_step, 13)
    faults = [mark.text for mark in strip.marks if mark.kind == "fault"]
    assert faults == ["Injected fault: rank 5 computes 1.6 times as long"]
    assert strip.median_ms == pytest.approx(float(np.median(strip.ms_P)), rel=1e-6)


def test_what_is_still_so_lasts_to_the_newest_step(hub: Hub) -> None:
    run, diagnosis = hub.run("slow_rank"), diagnosis_of(hub, "slow_rank")
    early = diagnosis.with_findings(lambda f: replace(f, last_step=9))  # judged some steps ago
    (stretch,) = strip_of(run, early).stretches
    assert stretch.last == 13
    over = early.with_findings(lambda f: replace(f, ongoing=False, severity="past"))
    (stretch,) = strip_of(run, over).stretches
    assert stretch.last == 9


def test_many_steps_are_pooled_and_the_slowest_is_kept() -> None:
    step_S = np.arange(100, 1100)
    ms_S = np.full(1000, 10.0)
    ms_S[777], ms_S[3] = 99.0, np.nan
    first_P, last_P, step_P, ms_P = pooled(step_S, ms_S, 64)
    assert len(ms_P) <= 64
    assert (first_P[0], last_P[-1]) == (100, 1099)
    assert (first_P[1:] == last_P[:-1] + 1).all()
    assert step_P[np.argmax(ms_P)] == 877
    assert ms_P.max() == 99.0
    far_S = np.array([5, 2**31 + 5, 2**40])
    assert pooled(far_S, np.ones(3), 64)[2].tolist() == far_S.tolist()
    assert np.isnan(pooled(step_S[3:4], ms_S[3:4], 64)[3]).all()


def test_rare_marks_survive_many_common_ones() -> None:
    marks = [Mark(step, "checkpoint", "x") for step in range(2 * MOST_MARKS)]
    kept = rarest_first([*marks, Mark(777, "error", "y")])
    assert len(kept) == MOST_MARKS
    assert Mark(777, "error", "y") in kept
    assert [mark.step for mark in kept] == sorted(mark.step for mark in kept)


def test_the_route(hub: Hub) -> None:
    with closing(Client(make_app(hub))) as client:
        for name in ("again", "begun"):
            answer = client.get(f"/api/run/{name}/strip")
            assert answer.status_code == 200
            assert answer.headers["content-type"] == "application/x-rankscope-arrays"
        assert client.get("/api/run/again/strip?attempt=-1").status_code == 400
        assert "error" in client.get("/api/run/nobody/strip").json()
