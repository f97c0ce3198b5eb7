"""Collectives seen only as their transfer: waiting lies in the backward before, or in no span."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from sample_traces.generate.faults import SyntheticFault
from sample_traces.generate.job import SyntheticJob
from sample_traces.generate.simulation.draw import draw
from sample_traces.generate.simulation.replay import replay
from sample_traces.generate.simulation.shown import shown_times

SLOW = SyntheticFault("slow_worker", 5, 1.5, 10)
JOB = SyntheticJob(8, num_steps=20, faults=(SLOW,))


def test_waiting_is_shown_where_it_is_by_default() -> None:
    times = replay(JOB, draw(JOB), 0)
    assert shown_times(JOB, times) is times
    assert np.ptp(times.scatter[15]) > 50_000_000


def test_waiting_in_the_last_backward() -> None:
    job = replace(JOB, hides="compute")
    times = replay(job, draw(job), 0)
    shown = shown_times(job, times)
    assert not np.ptp(shown.scatter[15])
    assert (shown.scatter <= times.scattered).all()
    backward = (shown.backward.ended - shown.backward.begun)[:, 15, 0, :, 0]
    usual = backward[:-1].mean(axis=0)
    assert (np.delete(backward[-1] / usual, 5) > 2).all()
    assert 0.9 < backward[-1, 5] / usual[5] < 1.1


def test_waiting_in_no_span() -> None:
    job = replace(JOB, hides="rest")
    times = replay(job, draw(job), 0)
    shown = shown_times(job, times)
    assert np.array_equal(shown.backward.ended, times.backward.ended)
    assert not np.ptp(shown.scatter[15])
