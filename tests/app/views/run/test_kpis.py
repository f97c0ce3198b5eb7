"""Key figures of the overview: baselines, changes beyond noise, ranks that report."""

from __future__ import annotations

import json
import math
import time
from dataclasses import replace
from pathlib import Path

import pytest

from app.analysis.kpis import kpis_of
from app.runs.hub import Hub
from app.view_state import View
from app.views.efficiency.mfu import Asked, efficiency_of
from app.views.run.kpi_baseline import Baseline, Scope, baseline_of, change_of, now_of
from app.views.run.kpis import _no_late_rank, _step_time, kpis, measured, with_reporting
from ingest.run import open_run
from sample_traces.generate.faults import SyntheticFault
from sample_traces.generate.job import SyntheticJob
from sample_traces.generate.tables.write import generate
from tests.runs_builder import RunBuilder, restarted_run, two_rank_run
from trace_hooks.layout import ParallelLayout
from trace_hooks.schema import publish_json


def test_who_is_heard_is_of_the_newest_attempt_alone(tmp_path: Path) -> None:
    run = restarted_run(tmp_path / "again", world_sizes=(8, 4))
    now_ns = time.time_ns()
    with open_run(run.folder) as opened:
        for attempt, value in ((None, "4 / 4"), (1, "4 / 4"), (0, None)):
            known = measured(opened, attempt, Scope())
            by_key = {kpi.key: kpi for kpi in with_reporting(opened, attempt, known, now_ns)}
            assert (by_key["heard"].value if "heard" in by_key else None) == value


def test_steps_that_are_under_way_are_no_ranks_that_fell_silent(tmp_path: Path) -> None:
    run = restarted_run(tmp_path / "again")
    with open_run(run.folder) as opened:
        known = replace(measured(opened, None, Scope()), ended=((0, 2.0), (1, 2.0), (2, 1.0)))
        shown_kpis = with_reporting(opened, None, known, time.time_ns())
        (reporting,) = [kpi for kpi in shown_kpis if kpi.key == "heard"]
        assert reporting.series == ((0, 2.0), (1, 2.0))


def test_ranks_that_fall_silent_no_longer_count_as_reporting(tmp_path: Path) -> None:
    """Nothing is written then, so no news comes: the tile must not wait for any."""
    restarted_run(tmp_path / "again")
    now_ns = time.time_ns()
    opened = Hub(tmp_path)
    try:
        seen = []
        for later_s in (0, 14):
            shown_kpis = kpis_of(opened, View("again"), now_ns=now_ns + later_s * 10**9)
            reporting = next(kpi for kpi in shown_kpis if kpi.key == "heard")
            seen.append((opened.version("again"), reporting.value, reporting.tone))
        version = seen[0][0]
        assert seen == [(version, "2 / 2", "plain"), (version, "0 / 2", "bad")]
    finally:
        opened.close()


def test_ranks_of_a_generated_job_are_recorded_and_do_not_report(tmp_path: Path) -> None:
    dead = SyntheticFault("dead_rank", 3, 0.0, first_step=2)
    generate(SyntheticJob(8, num_steps=4, level="steps", faults=(dead,)), tmp_path / "job")
    with open_run(tmp_path / "job") as run:
        (tile,) = [kpi for kpi in kpis(run, None, Scope()) if kpi.key == "heard"]
    assert (tile.label, tile.value, tile.detail) == ("Ranks recorded", "8 / 8", "ends not recorded")


def test_utilisation_is_shown_where_flops_and_peak_are_known(tmp_path: Path) -> None:
    """1e9 model FLOPs in steps of 0.1 ms on two H100 of 989.4e12 FLOP/s."""
    two_rank_run(tmp_path / "two", num_steps=12)
    for file in (tmp_path / "two" / "ranks").iterdir():
        publish_json({**json.loads(file.read_text()), "device": "NVIDIA H100 80GB HBM3"}, file)
    with open_run(tmp_path / "two") as run:
        (peak,) = set(run.ask("throughput").column("peak_tflops").to_pylist())
        by_key = {kpi.key: kpi for kpi in kpis(run, None, Scope())}
    assert by_key["mfu"].value == f"{100 * 1e9 / (1e-4 * 2 * peak * 1e12):.1f}"
    assert by_key["mfu"].unit == "%"


def test_baselines() -> None:
    series = [(step, 100.0 + step % 3) for step in range(100)]
    now = now_of(series, None)
    assert now == series[-5:]
    long = baseline_of(series, now, Scope())
    assert long is not None
    assert long.text == "steps 45 to 94"
    assert (long.value, long.noise) == (101.0, 3.0)
    few = baseline_of(series[:20], series[15:20], Scope())
    assert few is not None
    assert few.text == "steps 2 to 6"  # after the warm-up
    before = baseline_of(series[:20], series[15:20], Scope(own=((8, math.inf),)))
    assert before is not None
    assert before.text == "steps 3 to 7"  # as the cost is measured: after the warm-up, before 8
    short = baseline_of(series[:20], series[15:20], Scope(own=((5, math.inf),)))
    assert short is not None
    assert short.text == "steps 2 to 4"  # two would be too few
    assert baseline_of(series[:20], series[15:20], Scope(own=((4, math.inf),))) is None
    assert baseline_of([], [], Scope()) is None


@pytest.mark.parametrize(
    ("value", "higher_is_bad", "is_time", "detail", "tone"),
    [
        (102.0, True, True, "similar to steps 1 to 5", "plain"),  # within noise
        (110.0, True, True, "▲ from 100 ms in steps 1 to 5", "bad"),
        (90.0, True, True, "▼ from 100 ms in steps 1 to 5", "good"),
        (90.0, False, True, "▼ from 100 ms in steps 1 to 5", "bad"),
        (100.2, True, False, "similar to steps 1 to 5", "plain"),
    ],
)
def test_achange_of_is_coloured_only_beyond_noise(
    value: float, higher_is_bad: bool, is_time: bool, detail: str, tone: str
) -> None:
    base = Baseline(100.0, 3.0, "steps 1 to 5")
    assert change_of(value, base, higher_is_bad, is_time) == (detail, tone)


def test_a_newest_step_of_seven_times_the_usual_stands_on_its_tile() -> None:
    series = [(step, 100.0 + step % 3) for step in range(30)]
    calm = _step_time(series, Scope((10, 29)))
    assert calm is not None
    assert (calm.extra, calm.tone) == ("wall time, median of steps 10 to 29", "plain")
    one = _step_time(series[:1], Scope((0, 0)))
    assert one is not None
    assert one.extra == "wall time, of step 0"
    long = _step_time([*series, (30, 707.0)], Scope((11, 30)))
    assert long is not None
    assert long.extra.endswith("; newest step 30: 707 ms, 7.0x the usual")
    assert long.tone == "bad"
    assert long.value == "101"


def test_a_baseline_lies_in_no_finding() -> None:
    """Steps 3 to 5 were slow for another reason, and so are those from 14 on."""
    series = [(step, 100.0 if not (3 <= step <= 5 or step >= 14) else 500.0) for step in range(18)]
    scope = Scope((10, 11), ((10, 11),), ((3, 5), (14, math.inf)))
    base = baseline_of(series, now_of(series, scope.steps), scope)
    assert base is not None
    assert (base.value, base.text) == (100.0, "6 steps without a finding")  # 6 to 9, 12 and 13


def test_a_baseline_lies_between_the_episodes_of_the_finding() -> None:
    series = [(step, 500.0 if step in (8, 9, 14, 15) else 100.0) for step in range(20)]
    scope = Scope((14, 19), ((8, 9), (14, 15)))
    base = baseline_of(series, now_of(series, scope.steps), scope)
    assert base is not None
    assert (base.value, base.text) == (100.0, "9 steps without a finding")  # 3 to 7, 10 to 13


def test_less_waiting_without_a_late_rank_is_not_praised() -> None:
    """A rank that arrives late turns it into waiting."""
    shares = [
        {"step": step, "schedule_ratio": 0.1 if step < 8 else 0.02, "waiting_ratio": 0.0}
        | {"bubble_other_ratio": 0.0, "not_visible_ratio": 0.0}
        for step in range(12)
    ]
    tile = _no_late_rank(shares, Scope((8, 11), ((8, 11),)))
    assert tile is not None
    assert (tile.value, tile.tone) == ("2.0", "plain")
    assert tile.detail == "▼ 8.0 pt vs steps 3 to 7"


def test_without_a_pipeline_no_schedule_is_named(tmp_path: Path) -> None:
    labels = []
    for name, layout in (("dp", {"dp": 2}), ("pp", {"pp": 2})):
        builder = RunBuilder(tmp_path / name, 2, layout=ParallelLayout(tuple(layout.items())))
        builder.group(7, [0, 1], name)
        for rank in range(2):
            builder.step(rank, 0, 0, 100)
            builder.span(rank, 0, "forward", 0, 90)
            builder.span(rank, 0, f"{name}_comm", 90, 95, group_id=7, coll_seq=0)
            builder.collective(rank, 0, 7, 0, 90, 95)
        builder.rank_files()
        builder.publish()
        with open_run(builder.folder) as run:
            labels += [
                kpi.label for kpi in kpis(run, None, Scope((0, 0), ())) if kpi.key == "bubble"
            ]
    assert labels == ["Waiting, no late rank", "Pipeline bubble"]


def test_the_bubble_is_that_of_the_page_efficiency(tmp_path: Path) -> None:
    generate(SyntheticJob(8, pp=4, num_steps=12), tmp_path / "job")
    with open_run(tmp_path / "job") as run:
        (tile,) = [kpi for kpi in kpis(run, None, Scope((4, 11))) if kpi.key == "bubble"]
        found = efficiency_of(Asked(run, 0), (4, 11))
    assert found is not None
    share_by_bar = {bar.name: 100 * bar.share for bar in found.waterfall.bars}
    assert share_by_bar["pipeline"] > 3
    assert float(tile.value) == pytest.approx(share_by_bar["pipeline"], abs=0.5)
    assert f"waiting {share_by_bar['waiting']:.0f}" in tile.extra


def test_a_job_that_waits_for_its_data_has_a_tile_of_it(tmp_path: Path) -> None:
    fault = SyntheticFault.parse("data_loader,ms=100,from=8")
    generate(SyntheticJob(8, num_steps=12, faults=(fault,)), tmp_path / "job")
    with open_run(tmp_path / "job") as run:
        tiles = kpis(run, None, Scope((8, 11), ((8, math.inf),)))
        before = measured(run, None, Scope((3, 7))).kpis
    (tile,) = [kpi for kpi in tiles if kpi.key == "data_wait"]
    assert (tile.unit, tile.tone, tile.baseline_text) == ("%", "bad", "steps 3 to 7")
    assert 20 < float(tile.value) < 40
    assert "data_wait" not in {kpi.key for kpi in before}, "next to nothing has no tile"


@pytest.mark.parametrize("axis", ["dp", "pp"])
def test_a_job_whose_communication_was_not_recorded_has_no_share_of_it(
    tmp_path: Path, axis: str
) -> None:
    """0 % is a number that is known."""
    job = RunBuilder(tmp_path / "run", 2, layout=ParallelLayout(((axis, 2),)))
    job.rank_files()
    for rank in range(2):
        job.step(rank, 0, 0, 100)
        job.span(rank, 0, "forward", 0, 90)
    job.publish()
    with open_run(tmp_path / "run") as run:
        keys = {kpi.key for kpi in measured(run, None, Scope()).kpis}
    assert "step_time" in keys
    assert not keys & {"bubble", "exposed_comm"}


@pytest.mark.parametrize("axis", ["dp", "pp"])
def test_of_steps_of_which_only_the_length_is_known_no_share_is_stated(
    tmp_path: Path, axis: str
) -> None:
    job = RunBuilder(tmp_path / "run", 2, layout=ParallelLayout(((axis, 2),)))
    job.rank_files()
    for step in range(4):
        for rank in range(2):
            job.step(rank, step, 1000 * step, 1000 * step + 1000)
    job.publish()
    with open_run(tmp_path / "run") as run:
        keys = {kpi.key for kpi in measured(run, None, Scope()).kpis}
    assert "step_time" in keys
    assert not keys & {"bubble", "exposed_comm"}
