"""Sums over runs, on summaries made by hand."""

from __future__ import annotations

import msgspec
import pytest

from benchmarks.random_fleets import BEGIN_NS, DAY_NS, fleet_run
from diagnosis.fleet.fleet import fleet
from diagnosis.fleet.hosts import SlowHosts
from diagnosis.fleet.over_time import MOST_PERIODS, over_time
from diagnosis.fleet.summary import Summary
from diagnosis.fleet.totals import by_model, causes, lost_hours, slowdowns, worst_first


def a_run(**changed: object) -> Summary:
    """100 rank-hours, 10 of them lost to a slow worker and 5 before the first step."""
    run = fleet_run("run", 0, 0, [0, 1], [1])
    finding = msgspec.structs.replace(run.findings[0], rank_hours=10.0)
    plain = {"rank_hours": 100.0, "outside_hours": {"start_up": 5.0}, "findings": (finding,)}
    return msgspec.structs.replace(run, **{**plain, **changed})


def test_the_distribution_of_S() -> None:
    values = [1.0, 1.02, 1.05, 1.1, 1.2, 4.0]
    runs = [a_run(S=S, rank_hours=100.0) for S in values]
    runs.append(a_run(S=None, no_S="the layout is unknown"))
    runs.append(a_run(S=None, no_S=""))  # a self-test has no S
    found = slowdowns(runs)
    assert [one.num_runs for one in found.bins] == [2, 1, 2, 0, 0, 0, 1]
    assert (found.num_runs, found.num_straggling) == (6, 3)
    assert found.median == pytest.approx(1.075)
    assert found.p90 == 4.0
    assert found.lost_share == pytest.approx(sum(1 - 1 / S for S in values) / 6)
    assert found.unknown == {"the layout is unknown": 1}


def test_nine_of_ten_jobs_do_not_exceed_the_90th_percentile() -> None:
    found = slowdowns([a_run(S=1.0 + n / 10) for n in range(10)])
    assert found.p90 == pytest.approx(1.8)


def test_S_weighs_by_rank_hours() -> None:
    found = slowdowns([a_run(S=2.0, rank_hours=900.0), a_run(S=1.0, rank_hours=100.0)])
    assert found.lost_share == pytest.approx(0.45)


def test_without_S_there_is_no_median() -> None:
    found = slowdowns([a_run(S=None, no_S="why")])
    assert (found.median, found.p90, found.lost_share, found.num_runs) == (None, None, None, 0)


def test_causes_add_up() -> None:
    found = causes([a_run(), a_run(), a_run(findings=())])
    assert [(one.cause, one.is_outside, one.rank_hours, one.num_runs) for one in found] == [
        ("slow_worker", False, 20.0, 2),
        ("start_up", True, 15.0, 3),
    ]
    assert found[0].share == pytest.approx(20 / 300)


def test_costs_that_overlap_are_at_most_the_whole_run() -> None:
    finding = a_run().findings[0]
    other = msgspec.structs.replace(finding, kind="data_loader", rank_hours=180.0)
    lost = lost_hours(a_run(findings=(msgspec.structs.replace(finding, rank_hours=10.0), other)))
    assert sum(lost.values()) == pytest.approx(100.0)
    assert lost["data_loader", False] == pytest.approx(95 * 180 / 190)


def test_a_run_of_unknown_length_is_in_no_sum() -> None:
    made = fleet({"a": a_run(), "b": a_run(rank_hours=None, outside_hours={})}, SlowHosts())
    assert (made.num_runs, made.num_without_hours, made.rank_hours) == (2, 1, 100.0)
    assert made.lost_hours == pytest.approx(15.0)
    assert made.lost_share == pytest.approx(0.15)


def test_models_by_size_and_the_unknown_last() -> None:
    runs = [
        a_run(model="big", parameters=7e9, mfu=0.4),
        a_run(model="small", parameters=1e9, mfu=0.5),
        a_run(model="small", parameters=1e9, mfu=0.3),
        a_run(model="", parameters=None, mfu=None),
    ]
    rows = by_model(runs)
    assert [(row.model, row.num_runs, row.mfu) for row in rows] == [
        ("small", 2, pytest.approx(0.4)),
        ("big", 1, 0.4),
        ("", 1, None),
    ]
    assert (rows[0].mfu_low, rows[0].mfu_high, rows[2].num_mfu) == (0.3, 0.5, 0)


def test_the_runs_that_lost_most_come_first() -> None:
    runs = {"a": a_run(findings=()), "b": a_run(), "c": a_run(findings=(), outside_hours={})}
    assert worst_first(runs) == [("b", pytest.approx(15.0)), ("a", 5.0)]


def at_day(*days: int) -> list[Summary]:
    return [a_run(started_ns=BEGIN_NS + day * DAY_NS) for day in days]


def test_days_without_runs_are_periods_as_well() -> None:
    found = over_time([*at_day(0, 0, 3), a_run(started_ns=None)])
    assert found.unit == "day"
    assert [(one.first, one.num_runs) for one in found.periods] == [
        ("2026-01-01", 2),
        ("2026-01-02", 0),
        ("2026-01-03", 0),
        ("2026-01-04", 1),
    ]
    assert found.periods[0].lost == {"slow_worker": 20.0, "start_up": 10.0}
    assert found.num_without_time == 1


@pytest.mark.parametrize(
    ("last", "unit", "first"),
    [(39, "day", "2026-01-01"), (40, "week", "2025-12-29"), (300, "month", "2026-01-01")],
)
def test_the_shortest_unit_that_fits(last: int, unit: str, first: str) -> None:
    found = over_time(at_day(0, last))
    assert (found.unit, found.periods[0].first) == (unit, first)
    assert sum(one.num_runs for one in found.periods) == 2
    assert len(found.periods) <= MOST_PERIODS


def test_decades_are_shown_by_year() -> None:
    found = over_time(at_day(0, 20 * 365))
    assert (found.unit, len(found.periods)) == ("year", 20)


def test_no_run_has_a_time() -> None:
    assert over_time([a_run(started_ns=None)]).periods == ()


def test_a_fleet_of_nothing() -> None:
    made = fleet({}, SlowHosts())
    assert (made.num_runs, made.lost_share, made.started_ns) == (0, None, None)
    assert made.to_json()["hosts"]["named"] == []
