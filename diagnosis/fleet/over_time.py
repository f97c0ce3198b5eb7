"""Rank-hours lost by cause, over the days, weeks or months in which the runs began (UTC)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from diagnosis.fleet.summary import Summary
from diagnosis.fleet.totals import lost_hours

MOST_PERIODS = 40
"""Bars that fit into the chart; the shortest unit of the calendar that needs no more is taken."""

DAY = timedelta(days=1)


@dataclass(frozen=True)
class Period:
    """Runs that began from `first` (a date, UTC) to the next period's. `lost`: by cause."""

    first: str
    num_runs: int
    rank_hours: float
    lost: dict[str, float]


@dataclass(frozen=True)
class OverTime:
    """Periods without gaps, oldest first. `unit`: day, week, month or year."""

    unit: str
    periods: tuple[Period, ...]
    num_without_time: int
    """runs whose start is not known, which are in no period"""


def _monday(day: datetime) -> datetime:
    return day - DAY * day.weekday()


def _next_month(day: datetime) -> datetime:
    return (day.replace(day=1) + 31 * DAY).replace(day=1)


def _next_year(day: datetime) -> datetime:
    return day.replace(year=day.year + 1)


_UNITS: dict[str, tuple[Callable[[datetime], datetime], Callable[[datetime], datetime]]] = {
    "day": (lambda day: day, lambda day: day + DAY),
    "week": (_monday, lambda day: day + 7 * DAY),
    "month": (lambda day: day.replace(day=1), _next_month),
    "year": (lambda day: day.replace(month=1, day=1), _next_year),
}
"""Name -> first day of the unit that a day lies in, and of the next one."""


def over_time(runs: Sequence[Summary]) -> OverTime:
    """Losses by when the runs began."""
    timed = [(_day(run.started_ns), run) for run in runs if run.started_ns is not None]
    without = len(runs) - len(timed)
    if not timed:
        return OverTime("day", (), without)
    low, high = min(day for day, _ in timed), max(day for day, _ in timed)
    starts: list[datetime] = []
    for unit in _UNITS:
        starts = _starts(unit, low, high)
        if len(starts) <= MOST_PERIODS:
            break
    starts = starts[-MOST_PERIODS:]
    first_of = _UNITS[unit][0]
    own: dict[datetime, list[Summary]] = defaultdict(list)
    for day, run in timed:
        own[first_of(day)].append(run)
    return OverTime(unit, tuple(_period(first, own[first]) for first in starts), without)


def _starts(unit: str, low: datetime, high: datetime) -> list[datetime]:
    """First days of the units from one day to another; one more than MOST_PERIODS at most, but of
    years all.
    """
    first_of, next_of = _UNITS[unit]
    starts = [first_of(low)]
    while (following := next_of(starts[-1])) <= high:
        starts.append(following)
        if len(starts) > MOST_PERIODS and unit != "year":
            break
    return starts


def _day(time_ns: int) -> datetime:
    return datetime.fromtimestamp(time_ns // 10**9, UTC).replace(
        hour=0, minute=0, second=0, microsecond=0
    )


def _period(first: datetime, runs: Sequence[Summary]) -> Period:
    lost: dict[str, float] = defaultdict(float)
    for run in runs:
        for (cause, _), hours in lost_hours(run).items():
            lost[cause] += hours
    hours = sum(run.rank_hours or 0.0 for run in runs)
    return Period(f"{first:%Y-%m-%d}", len(runs), hours, dict(lost))
