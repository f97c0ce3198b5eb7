"""Whom the recorded noise delays: ranks that it makes late, in the steps in which it does."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from sample_traces.generate.job import SyntheticJob
from sample_traces.generate.labelled.noise_truth import NoiseTruth
from sample_traces.generate.simulation.draw import draw, recorded_factors

KIND = "host_contention"


@pytest.fixture
def job(tmp_path: Path) -> SyntheticJob:
    """Two stages of eight ranks; the recording of eight ranks is slow in half of its steps."""
    random = np.random.default_rng(1)
    compute = 10 * np.exp(0.01 * random.standard_normal((85, 8)))
    compute[45:] *= 2
    step = np.repeat(compute.max(axis=1, keepdims=True), 8, axis=1)
    np.savez(tmp_path / "a.npz", step=step, compute=compute, comm=step - compute)
    return SyntheticJob(16, pp=2, num_steps=40, seed=5, recorded=str(tmp_path / "a.npz"))


def slow_steps(job: SyntheticJob, ranks: range) -> tuple[int, int]:
    """First and last step of the longest stretch in which these ranks are slow and no others."""
    factors_SR = recorded_factors(job)
    others = np.setdiff1d(np.arange(job.num_ranks), ranks)
    is_slow_S = np.median(factors_SR[:, ranks], axis=1) > 1.5 * np.median(
        factors_SR[:, others], axis=1
    )
    edges = np.flatnonzero(np.diff(np.r_[0, is_slow_S, 0])).reshape(-1, 2)
    first, end = max(edges.tolist(), key=lambda edge: edge[1] - edge[0])
    return first, end - 1


def test_who_is_late_for_the_noise_and_when(job: SyntheticJob) -> None:
    truth, host, other = NoiseTruth(job), range(8), range(8, 16)
    steps = slow_steps(job, host)
    assert steps[1] - steps[0] >= 5
    assert truth.delays(KIND, host, *steps)
    assert not truth.delays(KIND, other, *steps)
    assert not truth.delays(KIND, [*host, 8], *steps)
    assert not truth.delays(KIND, range(16), *steps)
    assert not truth.delays(KIND, [], *steps)
    assert not truth.delays("slow_stage", host, *steps)


def test_the_noise_takes_no_cpu_time(job: SyntheticJob) -> None:
    durations = draw(job)
    wall_S = durations.forward_MSPDT[0].mean(axis=(1, 2, 3))
    cpu_S = (durations.forward_MSPDT[0] / durations.wall_per_cpu_SPDT).mean(axis=(1, 2, 3))
    assert wall_S.max() > 1.5 * wall_S.min()
    assert cpu_S.max() < 1.1 * cpu_S.min()


def test_steps_count_from_where_the_job_resumed(job: SyntheticJob) -> None:
    first, last = slow_steps(job, range(8))
    resumed = NoiseTruth(replace(job, resumed_at=8))
    assert resumed.delays(KIND, range(8), first + 8, last + 8)


def test_without_a_recording_there_is_no_noise_to_blame(job: SyntheticJob) -> None:
    assert not NoiseTruth(replace(job, recorded="")).delays(KIND, range(8), 0, 39)
