"""Forms of time in lines, and the year of those that name none."""

from __future__ import annotations

import pytest

from ingest.readers.logs.timestamps import UNKNOWN_NS, Clock, has_time, nearest_year_ns

AT_S = 1776099080
"""2026-04-13T16:51:20Z"""
FORMS = {
    "2026-04-13T16:51:20Z text": 0,
    "2026-04-13T16:51:20.123456789Z text": 123_456_789,
    "2026-04-13T18:51:20+02:00 text": 0,
    "2026-04-13T12:51:20.5-0400 text": 500_000_000,
    "2026-04-13 16:51:20,125 - INFO - a": 125_000_000,
    "[2026-04-13 16:51:20] node1:1:2 [0] NCCL WARN a": 0,
    "[NeMo I 2026-04-13 16:51:20 trainer:3] a": 0,
    "2026/04/13 16:51:20 a": 0,
    "  time      : 2026-04-13_16:51:20": 0,
    "04/13/2026 16:51:20 - INFO - __main__ - a": 0,
    "[Mon Apr 13 16:51:20 2026] NVRM: a": 0,
    "slurmstepd: error: *** JOB 1 ON a-rather-long-name-of-a-node CANCELLED AT "
    "2026-04-13T16:51:20 ***": 0,
}
WITHOUT_YEAR = {
    "[E413 16:51:20.061727749 ProcessGroupNCCL.cpp:683] a": 61_727_749,
    "E0413 16:51:20.739000 4711 torch/a.py:3] a": 739_000_000,
    "Apr 13 16:51:20 node1 kernel: a": 0,
    "INFO 04-13 16:51:20 [core.py:58] a": 0,
}
NO_TIMES = (
    "",
    "step 3 took 00:01:20",
    "2026-04-13 25:00:00 a",
    "2026-13-13 10:00:00 a",
    "1026-04-13 10:00:00 a",
    "[ 4000.318492] a",
    "Foo 13 16:51:20 node1 a",
    "10:00:00 a",
)


@pytest.mark.parametrize("text", FORMS)
def test_forms(text: str) -> None:
    clock = Clock(None)
    assert clock.time_ns(text) == AT_S * 10**9 + FORMS[text]
    assert has_time(text)
    assert not clock.guessed_year


@pytest.mark.parametrize("text", WITHOUT_YEAR)
def test_the_year_is_the_newest_that_fits_the_change_of_the_file(text: str) -> None:
    wanted = AT_S * 10**9 + WITHOUT_YEAR[text]
    for changed_s in (AT_S, AT_S + 300 * 86_400, AT_S - 3600):
        clock = Clock(changed_s)
        assert clock.time_ns(text) == wanted
        assert clock.guessed_year
    assert Clock(None).time_ns(text) == UNKNOWN_NS


@pytest.mark.parametrize("text", WITHOUT_YEAR)
def test_a_year_of_the_file_counts_more(text: str) -> None:
    """Of a line near the beginning, then of the newest line before."""
    clock = Clock(0.0, ["no time", "2025-04-01 00:00:00 first"])
    assert clock.time_ns(text) == (AT_S - 365 * 86_400) * 10**9 + WITHOUT_YEAR[text]
    clock.time_ns("2026-01-01 00:00:00 second")
    assert clock.time_ns(text) == AT_S * 10**9 + WITHOUT_YEAR[text]
    assert not clock.guessed_year


def test_lines_around_new_year_are_of_two_years() -> None:
    clock = Clock(None, ["2025-12-31 23:59:58 first"])
    lines = [
        "I1231 23:59:59.000000 4711 x.cpp:3] a",
        "[W101 00:00:00.000000000 ProcessGroupNCCL.cpp:683] a",
        "2026-01-01 00:00:01 a",
        "Dec 31 23:59:59 node1 kernel: a",  # another of the job's processes, whose line came late
        "Jan  1 00:00:02 node1 kernel: a",
    ]
    new_year_ns = 1_767_225_600 * 10**9
    since_s = [(clock.time_ns(line) - new_year_ns) / 1e9 for line in lines]
    assert since_s == [-1, 0, 1, -1, 2]


@pytest.mark.parametrize("text", NO_TIMES)
def test_what_is_no_time(text: str) -> None:
    assert Clock(AT_S).time_ns(text) == UNKNOWN_NS


def test_a_zone_is_guessed_only_where_none_is_named() -> None:
    clock = Clock(None)
    clock.time_ns("2026-04-13T16:51:20Z a")
    assert not clock.guessed_zone
    clock.time_ns("2026-04-13T16:51:20 a")
    assert clock.guessed_zone


@pytest.mark.parametrize("zone", ["+02:00", "+0200", " +02:00", "+02", "+02]", "+02 INFO"])
def test_a_zone_counts_in_each_of_its_forms(zone: str) -> None:
    clock = Clock(None)
    at_ns = clock.time_ns("2026-04-13 14:51:20Z")
    assert clock.time_ns(f"2026-04-13 16:51:20{zone} a") == at_ns
    assert not clock.guessed_zone


@pytest.mark.parametrize("text", [" +02 a", "-12.5", "+123 a", "-ab"])
def test_other_numbers_after_a_time_are_no_zone(text: str) -> None:
    clock = Clock(None)
    assert clock.time_ns(f"2026-04-13 16:51:20{text}") == clock.time_ns("2026-04-13 16:51:20Z")
    assert clock.guessed_zone


@pytest.mark.parametrize("years", [-3, -1, 0, 2])
def test_a_guessed_year_moves_near_other_logs(years: int) -> None:
    """By whole days, over leap years as well."""
    day_ns = 86_400 * 10**9
    guessed_ns = (AT_S + round(years * 365.25) * 86_400) * 10**9
    shift_ns = nearest_year_ns(guessed_ns, AT_S * 10**9)
    assert shift_ns % day_ns == 0
    assert abs(guessed_ns + shift_ns - AT_S * 10**9) <= day_ns
