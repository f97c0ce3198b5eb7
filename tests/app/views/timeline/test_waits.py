"""Why a lane is idle: who is named late, what is the schedule's, what nobody saw."""

from __future__ import annotations

import shutil

import numpy as np
import pytest

from app.views.timeline.lanes import Place
from app.views.timeline.lod import owned
from app.views.timeline.query import LaneQuery
from app.views.timeline.waits import BUBBLE, NOT_VISIBLE, UPSTREAM, WAITING, idle, waits
from app.views.timeline.window import Window, extent, window_of_steps
from ingest.run import open_run
from sample_traces import RECORDED
from tests.runs_builder import RunBuilder, two_rank_run
from trace_hooks.layout import ParallelLayout

US = 1_000


def loaded(run, window):
    lanes = [Place(**row) for row in run.ask("clock_shifts").to_pylist()]
    have = extent(run, 0, [place.rank for place in lanes])
    return LaneQuery(run, 0, lanes, window, have).recorded()


def found(run, window):
    """{(lane, kind): [(begin us, end us, late rank)]} of the idle pieces."""
    spans, instances, windows = loaded(run, window)
    made = idle(spans, owned(spans), windows.clipped(window.begin_ns, window.end_ns), instances)
    rows = {}
    for lane, begin, end, kind, instance in zip(
        made.lane_E.tolist(),
        made.begin_E.tolist(),
        made.end_E.tolist(),
        made.kind_E.tolist(),
        made.instance_E.tolist(),
        strict=True,
    ):
        late = int(instances.late_rank_W[instance]) if instance >= 0 else -1
        rows.setdefault((lane, kind), []).append((begin / US, end / US, late))
    return rows


def test_the_late_rank_is_named_and_does_not_wait_itself(tmp_path):
    two_rank_run(tmp_path / "run", num_steps=1)  # rank 1 comes 20 us after rank 0, at 40
    with open_run(tmp_path / "run") as run:
        rows = found(run, Window(0, 100 * US))
    assert rows == {(0, WAITING): [(20, 40, 1)]}


def test_a_rank_of_another_stage_is_distinguished(tmp_path):
    run = RunBuilder(tmp_path / "run", 2, ParallelLayout.from_sizes(pp=2))
    run.group(9, [0, 1], "pp")
    for rank, start in ((0, 60), (1, 0)):
        op = "send" if rank == 0 else "recv"
        run.step(rank, 0, 0, 100)
        if rank == 0:
            run.span(0, 0, "forward", 0, 60)
        run.span(rank, 0, "pp_comm", start, 70, name=op, group_id=9, coll_seq=0, peer=1 - rank)
        run.span(rank, 0, "backward", 70, 100)
        run.collective(rank, 0, 9, 0, start, 70, op=op, peer=1 - rank, tag=0)
    run.rank_files()
    run.publish()
    with open_run(run.folder) as opened:
        rows = found(opened, Window(0, 100 * US))
    assert rows == {(1, UPSTREAM): [(0, 60, 0)]}


def test_waiting_without_a_late_rank_is_the_schedules(tmp_path):
    run = RunBuilder(tmp_path / "run", 2, ParallelLayout.from_sizes(tp=2))
    run.group(7, [0, 1], "tp")
    for rank in range(2):
        run.step(rank, 0, 0, 100)
        run.span(rank, 0, "forward", 0, 20)
        run.span(rank, 0, "tp_comm", 20, 100, group_id=7, coll_seq=0)
        run.collective(rank, 0, 7, 0, 20, 50 if rank == 0 else 100)  # rank 0 saw the end at 50
    run.rank_files()
    run.publish()
    with open_run(run.folder) as opened:
        rows = found(opened, Window(0, 100 * US))
    assert rows == {(0, BUBBLE): [(50, 100, -1)], (1, BUBBLE): [(50, 100, -1)]}


def test_what_nothing_recorded_is_not_visible_and_never_bubble(tmp_path):
    run = RunBuilder(tmp_path / "run", 1)
    run.step(0, 0, 0, 100)
    run.span(0, 0, "forward", 0, 30)
    run.span(0, 0, "host", 60, 100)  # other than waiting: no bubble of the schedule
    run.rank_files()
    run.publish()
    with open_run(run.folder) as opened:
        rows = found(opened, Window(0, 100 * US))
        part = found(opened, Window(0, 40 * US))
    assert rows == {(0, NOT_VISIBLE): [(30, 60, -1)]}
    assert part == {(0, NOT_VISIBLE): [(30, 40, -1)]}, "no verdict outside the window"


@pytest.mark.parametrize(
    ("hosts", "end_us"),
    [(["h0", "h1"], 50), (["h0", "h0"], -1)],
    ids=["clock of rank 1 unknown", "a member is not there yet"],
)
def test_without_a_verdict_nobody_is_named(tmp_path, hosts, end_us):
    run = RunBuilder(tmp_path / "run", 2, ParallelLayout.from_sizes(tp=2), hosts=hosts)
    run.group(7, [0, 1], "tp")
    for rank in range(2 if end_us > 0 else 1):
        run.step(rank, 0, 0, 100)
        run.span(rank, 0, "tp_comm", 10 + 20 * rank, 100, group_id=7, coll_seq=0)
        run.collective(rank, 0, 7, 0, 10 + 20 * rank, end_us)
    run.rank_files()
    run.publish()
    with open_run(run.folder) as opened:
        rows = found(opened, Window(0, 100 * US))
    assert {kind for _, kind in rows} == {NOT_VISIBLE}


def test_compute_on_another_track_hides_the_wait_from_idle_but_not_from_the_waits(tmp_path):
    builder = two_rank_run(tmp_path / "run", num_steps=1)
    builder.span(0, 0, "kernel", 0, 100, track="stream")
    builder.publish()
    window = Window(0, 100 * US)
    with open_run(builder.folder) as run:
        assert (0, WAITING) not in found(run, window)
        _, instances, _ = loaded(run, window)
    made = waits(instances)
    assert (made.lane_E.tolist(), made.begin_E.tolist(), made.end_E.tolist()) == (
        [0],
        [20 * US],
        [40 * US],
    )


def test_the_picture_has_the_waiting_that_the_index_counts(tmp_path):
    folder = tmp_path / "slow_rank"
    shutil.copytree(RECORDED / "slow_rank", folder)
    with open_run(folder) as run:
        window = window_of_steps(run, 0, list(range(8)), (8, 9))
        spans, instances, windows = loaded(run, window)
        exact = windows.clipped(window.begin_ns, window.end_ns)
        inside = (exact.step_C >= 8) & (exact.step_C <= 9)
        exact = type(exact)(*(getattr(exact, n)[inside] for n in exact.__dataclass_fields__))
        made = idle(spans, owned(spans), exact, instances)
        counted = run.ask("bubble", step_min=8, step_max=9).to_pylist()
    length_ns = made.end_E - made.begin_E
    late = np.isin(made.kind_E, (WAITING, UPSTREAM))
    for row in counted:
        own = made.lane_E == row["rank"]
        assert length_ns[own & late].sum() / 1e6 == pytest.approx(2 * row["waiting_ms"], rel=1e-6)
        schedule = length_ns[own & (made.kind_E == BUBBLE)].sum() / 1e6
        assert schedule == pytest.approx(2 * row["schedule_ms"], rel=1e-6)
