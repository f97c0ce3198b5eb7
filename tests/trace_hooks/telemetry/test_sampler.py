"""What is written when, and what happens to sources that fail or cost much."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from itertools import count

import pytest

from trace_hooks.telemetry.reading import NAN, Reading, Source, SourceError
from trace_hooks.telemetry.sample_rows import MOST_ROWS
from trace_hooks.telemetry.sampler import RETRY_S, Round, Sampler


class Made(Source):
    """A source that gives what a function gives."""

    name = "cpu"

    def __init__(self, give: Callable[[], Iterable[Reading]]) -> None:
        self.give, self.num_reads = give, 0

    def read(self) -> Iterable[Reading]:
        self.num_reads += 1
        return self.give()


def sampled(sampler: Sampler, seconds: Iterable[float]) -> list[tuple[float, str, float, str]]:
    """(second, metric, value, state) of what is written, the sampler's own metrics left out."""
    for second in seconds:
        sampler.sample(Round(second, int(second * 1e9), step=7, steps={2: 9}))
    return [
        (ts_ns / 1e9, series.metric, value, state)
        for ts_ns, _, series, value, state in sampler.rows.take()
        if series.metric not in ("watchdog_cpu_seconds_total", "sampler_late_seconds")
        and not series.metric.endswith("_readable")
    ]


def test_detectors_inputs_are_written_each_second_also_when_equal() -> None:
    sampler = Sampler([Made(lambda: [Reading("host", "memory_available_bytes", 5.0)])])
    assert [row[0] for row in sampled(sampler, range(1, 6))] == [1, 2, 3, 4, 5]


def test_the_rest_is_written_on_change_and_once_a_minute() -> None:
    values = iter([1.0] * 10 + [2.0] * 200)
    source = Made(lambda: [Reading("host", "oom_kills_total", next(values))])
    rows = sampled(Sampler([source]), range(1, 101))
    assert [(row[0], row[2]) for row in rows] == [(1, 1.0), (11, 2.0), (71, 2.0)]


def test_what_changes_all_the_time_is_written_once_a_minute() -> None:
    numbers = iter(range(1, 200))
    source = Made(lambda: [Reading("host", "context_switches_total", next(numbers))])
    assert [row[0] for row in sampled(Sampler([source]), range(1, 122))] == [1, 61, 121]


def test_the_three_states() -> None:
    answers = iter([3.0, 0.0, NAN, NAN])

    def give() -> list[Reading]:
        value = next(answers)
        reason = "EACCES" if value != value else ""
        return [Reading("host", "memory_available_bytes", value, reason)]

    rows = sampled(Sampler([Made(give)]), range(1, 5))
    assert [row[3] for row in rows] == ["value", "zero", "unreadable: EACCES"]


def test_steps_of_ranks_and_of_the_host() -> None:
    sampler = Sampler(
        [
            Made(
                lambda: [
                    Reading("process", "process_threads", 1.0, rank=2),
                    Reading("host", "cpu_cores", 1.0),
                ]
            )
        ]
    )
    sampler.sample(Round(1.0, 1, step=7, steps={2: 9}))
    steps = {series.metric: step for _, step, series, _, _ in sampler.rows.take()}
    assert (steps["process_threads"], steps["cpu_cores"]) == (9, 7)


@pytest.mark.parametrize("error", [SourceError("gone"), PermissionError(13, "x"), ValueError("x")])
def test_a_source_that_fails_is_switched_off_for_a_while(error: Exception) -> None:
    def fail() -> list[Reading]:
        raise error

    bad = Made(fail)
    good = Made(lambda: [Reading("host", "memory_available_bytes", 5.0)])
    good.name = "memory"
    sampler = Sampler([bad, good])
    rows = sampled(sampler, range(1, 1 + int(RETRY_S)))
    assert bad.num_reads == 1
    assert len(rows) == int(RETRY_S)
    sampled(sampler, [1 + RETRY_S])
    assert bad.num_reads == 2


def test_why_a_source_is_off_is_written() -> None:
    def fail() -> list[Reading]:
        raise PermissionError(13, "Permission denied", "/dev/kmsg")

    sampler = Sampler([Made(fail)])
    sampler.sample(Round(1.0, 1))
    states = {row[2].metric: row[4] for row in sampler.rows.take()}
    assert states["cpu_readable"] == "unreadable: Permission denied: /dev/kmsg"


def test_a_source_that_costs_much_is_read_more_seldom() -> None:
    def slow() -> list[Reading]:
        until_s = time.thread_time() + 0.002  # of a second: four times its share
        while time.thread_time() < until_s:
            pass
        return []

    source = Made(slow)
    sampled(Sampler([source]), range(1, 41))
    assert 8 <= source.num_reads <= 14


def test_seconds_that_were_missed_are_written() -> None:
    sampler = Sampler([])
    for second in (1, 2, 6):
        sampler.sample(Round(float(second), second))
    late = [row[3] for row in sampler.rows.take() if row[2].metric == "sampler_late_seconds"]
    assert late == [0, 3]


def test_rows_that_nobody_takes_are_bounded() -> None:
    numbers = count()
    source = Made(lambda: [Reading("host", "memory_available_bytes", next(numbers))] * 50_000)
    sampler = Sampler([source])
    for second in range(1, 6):
        sampler.sample(Round(second, second))
    rows = sampler.rows.take()
    assert len(rows) == MOST_ROWS
    assert rows[-3][3] == 4.0  # the newest; the last two are the sampler's own
