"""The source startup: from the start of the process to the end of the first step."""

import os
from pathlib import Path
from threading import Thread

import pytest

from tests.trace_hooks.tiny_models import tracing
from trace_hooks.recording.clock import now
from trace_hooks.sources.startup import startup

BEGIN = ("before", "imports and what else ran before trace_hooks.start")
HOOKS = ("hooks", "trace_hooks.start")


@pytest.fixture(autouse=True)
def fresh_process(monkeypatch):
    monkeypatch.setattr(startup, "_seen_from_its_start", 0)


def looks_from_another_thread(source):
    """As the drain thread does; this thread is in this function meanwhile."""
    thread = Thread(target=source.poll)
    thread.start()
    thread.join()


def test_the_time_before_the_hooks_and_what_follows_are_rows():
    with tracing("startup") as traced:
        source = traced.source("startup")
        source.poll()
        looks_from_another_thread(source)
        source.step_end()
        looks_from_another_thread(source)
        rows = traced.rows("startup")
    assert [(row["phase"], row["what"]) for row in rows[:2]] == [BEGIN, HOOKS]
    assert rows[2]["phase"] == "other"
    assert rows[2]["what"] == "looks_from_another_thread (test_startup.py)"
    assert [row["how"] for row in rows] == ["process", "measured", "sampled"]
    assert rows[0]["ts_ns"] + rows[0]["dur_ns"] == rows[1]["ts_ns"]
    assert rows[1]["ts_ns"] + rows[1]["dur_ns"] == rows[2]["ts_ns"]


def test_the_process_began_when_the_kernel_says():
    with tracing("startup") as traced:
        (row,) = traced.rows("startup")
    ticks = int(Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19])
    uptime_s = float(Path("/proc/uptime").read_text().split()[0])
    age_s = uptime_s - ticks / os.sysconf("SC_CLK_TCK")
    assert (now() - row["ts_ns"]) / 1e9 == pytest.approx(age_s, abs=2.0)


def test_a_second_recording_of_a_process_begins_with_its_hooks():
    with tracing("startup"):
        pass
    with tracing("startup") as traced:
        traced.source("startup").poll()
        assert [row["phase"] for row in traced.rows("startup")] == ["hooks"]


def test_inside_the_first_step_only_what_is_no_step_counts():
    with tracing("startup") as traced:
        source = traced.source("startup")
        source.poll()
        traced.rank_state.step = 0
        looks_from_another_thread(source)
        source.step_end()
        looks_from_another_thread(source)
        assert [row["phase"] for row in traced.rows("startup")] == ["before", "hooks"]


def test_after_the_first_step_nothing_is_looked_at(monkeypatch):
    with tracing("startup") as traced:
        source = traced.source("startup")
        source.poll()
        source.step_end()
        monkeypatch.setattr(startup, "place_of", None)  # a call would raise
        looks_from_another_thread(source)
        assert len(traced.rows("startup")) == 2


def test_what_a_job_did_that_ends_before_its_first_step_is_written():
    with tracing("startup") as traced:
        source = traced.source("startup")
        source.poll()
        looks_from_another_thread(source)
        assert len(traced.rows("startup")) == 2
    assert [row["phase"] for row in traced.rows("startup")][2:] == ["other"]
