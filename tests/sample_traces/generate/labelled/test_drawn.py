"""Jobs drawn at random: the same seed is the same job, a louder fault costs more."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from sample_traces.generate.faults import SyntheticFault
from sample_traces.generate.habits import Habits
from sample_traces.generate.job import SyntheticJob
from sample_traces.generate.labelled.drawn import draw_healthy, draw_labelled
from sample_traces.generate.labelled.visible import LOST, lost_in_noise
from sample_traces.generate.labelled.worlds import NATIVE_WORLDS
from sample_traces.generate.simulation.draw import draw


def test_a_seed_is_a_job() -> None:
    first, second = (draw_labelled("slow_worker", "loud", 3).job for _ in range(2))
    assert first == second
    assert draw_healthy(3).job != draw_healthy(4).job
    assert draw_healthy(3).job.faults == ()


@pytest.mark.parametrize("kind", ["slow_worker", "gc_pauses"])
def test_a_louder_dose_costs_more(kind: str) -> None:
    masked, loud = (draw_labelled(kind, dose, 5) for dose in ("masked", "loud"))
    assert kind in {fault.kind for fault in loud.job.faults}
    assert 1 < masked.slowdown < loud.slowdown


def test_worlds_add_to_the_job() -> None:
    hidden = draw_labelled("slow_worker", "loud", 3, NATIVE_WORLDS["async_native"]).job
    assert hidden.hides in ("compute", "rest")
    assert hidden.tp == 1
    restless = draw_healthy(3, NATIVE_WORLDS["host_bound_native"]).job
    assert restless.habits is not None
    assert restless.habits.swing > 0
    plain = replace(restless, habits=None)
    assert draw(restless).forward_MSPDT.std() > 2 * draw(plain).forward_MSPDT.std()


def test_compute_has_the_noise_of_a_recording(tmp_path: Path) -> None:
    random = np.random.default_rng(1)
    compute = 10 * np.exp(0.3 * random.standard_normal((80, 4)))
    step = np.repeat(compute.max(axis=1, keepdims=True), 4, axis=1)
    np.savez(tmp_path / "a.npz", step=step, compute=compute, comm=step - compute)
    path = str(tmp_path / "a.npz")
    drawn = draw_labelled("slow_worker", "quiet", 3, NATIVE_WORLDS["resampled_native"], [path])
    assert drawn.job.recorded == path
    healthy = draw(replace(drawn.job, faults=())).forward_MSPDT
    assert np.log(healthy.mean(axis=0)).std() == pytest.approx(0.3, rel=0.2)


def test_a_fault_within_the_noise_of_the_job_is_not_identifiable() -> None:
    fault = SyntheticFault("slow_worker", 3, 1.2, 10)
    calm = SyntheticJob(16, num_steps=40, faults=(fault,))
    restless = replace(calm, habits=Habits(swing=0.6, memory=20.0))
    assert lost_in_noise(calm, fault) == ""
    assert lost_in_noise(restless, fault) == LOST
    assert lost_in_noise(restless, SyntheticFault("comm_regression", None, 3.0, 10)) == ""
