"""Recorded noise, in blocks of steps, with faults planted into it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from sample_traces.generate.phase_log.job import LogFault, LogJob
from sample_traces.generate.phase_log.resampled import like_recorded, resampled
from sample_traces.generate.phase_log.simulate import simulate
from sample_traces.generate.recorded_noise import (
    BLOCKS,
    Recording,
    load_recording,
    recordings_in,
)
from tests.sample_traces.generate.phase_log.test_simulate import JOB

HIDES = ["data", "compute", "comm"]


def recording_of(job: LogJob, path: Path) -> Recording:
    """Of a job in which now and then a rank is late."""
    habits = replace(job.habits, spikes=0.02, spike=0.2, spike_phase="rest")
    log = simulate(replace(job, num_steps=200, habits=habits))
    np.savez(path, step=log.step_SR, **log.timers)
    return load_recording(str(path))


@pytest.mark.parametrize("hides", HIDES)
def test_the_timer_with_the_waiting_is_found(hides: str, tmp_path: Path) -> None:
    recording = recording_of(replace(JOB, hides=((hides, 1.0),)), tmp_path / "a.npz")
    assert recording.hides == hides
    assert recording.step_SR.shape == (195, 8)


def test_blocks_are_neighbouring_steps(tmp_path: Path) -> None:
    step_S = recording_of(JOB, tmp_path / "a.npz").blocks(300, np.random.default_rng(1))
    jumps = int((np.diff(step_S) != 1).sum())
    assert step_S.size == 300
    assert 300 / BLOCKS[1] - 1 <= jumps <= 300 / BLOCKS[0]


@pytest.mark.parametrize("hides", HIDES)
def test_a_planted_delay_is_waited_for_where_waiting_hides(hides: str, tmp_path: Path) -> None:
    recording = recording_of(replace(JOB, hides=((hides, 1.0),)), tmp_path / "a.npz")
    job = like_recorded(JOB, recording)
    healthy = resampled(recording, job)
    faulty = resampled(recording, replace(job, faults=(LogFault((3,), "rest", 50.0, 20, 59),)))
    more_SR = faulty.timers[hides] - healthy.timers[hides]
    assert not more_SR[:20].any()
    assert (np.median(np.delete(more_SR[20:], 3, axis=1), axis=0) > 40).all()
    assert (more_SR[20:, 3] <= 1e-9).all()
    longer_S = faulty.step_S - healthy.step_S
    assert 40 < np.median(longer_S[20:]) <= 60


def test_compute_keeps_its_noise(tmp_path: Path) -> None:
    recording = recording_of(replace(JOB, hides=(("comm", 1.0),)), tmp_path / "a.npz")
    factors = recording.compute_factors(40, 20, np.random.default_rng(1))
    assert factors.shape == (40, 20)
    assert np.median(factors) == pytest.approx(1, abs=0.01)
    assert 0.005 < factors.std() < 0.02


def test_a_folder_without_recordings_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="has no recorded noise"):
        recordings_in(str(tmp_path))
