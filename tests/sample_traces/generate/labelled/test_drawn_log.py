"""Labels of phase logs: who can be named, and who cannot."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from sample_traces.generate.habits import Habits
from sample_traces.generate.labelled.doses import DOSES
from sample_traces.generate.labelled.drawn_log import KINDS, dosed, draw_log
from sample_traces.generate.labelled.labels import Label
from sample_traces.generate.labelled.log_labels import Plan, labels_of
from sample_traces.generate.labelled.worlds import LOG_WORLDS, PHASE_LOG
from sample_traces.generate.phase_log.job import LogFault, LogJob
from sample_traces.generate.phase_log.simulate import simulate
from tests.sample_traces.generate.phase_log.test_simulate import JOB, LATE

LONG = replace(JOB, num_steps=120)


def label_of(job: LogJob, fault: LogFault, host_wide: bool = False) -> Label:
    (label,) = labels_of(replace(job, faults=(fault,)), (Plan("planted", fault, host_wide),))
    return label


def test_a_seed_is_a_job() -> None:
    first, second = (draw_log(PHASE_LOG, "late_in_data", "loud", 3) for _ in range(2))
    assert (first.job, first.labels) == (second.job, second.labels)
    assert draw_log(PHASE_LOG, None, "any", 3).labels == ()


@pytest.mark.parametrize("world", LOG_WORLDS)
@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_has_the_dose_that_it_says(world: str, kind: str) -> None:
    drawn = draw_log(LOG_WORLDS[world], kind, "loud", 5)
    steps, fault = drawn.steps, drawn.job.faults[0]
    assert steps.with_S.size == drawn.job.num_steps
    alone = simulate(replace(drawn.job, faults=(fault,))).step_S
    longer = (alone - steps.without_S).sum() / fault.hits(drawn.job.num_steps).sum()
    assert longer / np.median(steps.without_S) >= DOSES["loud"] - 1
    assert drawn.labels[0].planted == kind


def test_a_rank_late_outside_of_all_timers_is_expected_by_its_name() -> None:
    label = label_of(LONG, LATE)
    assert (label.ranks, label.is_identifiable, label.first_step) == ((3,), True, 20)
    assert {"launch_skew", "slow_worker"} <= set(label.kinds)


def test_an_excess_that_all_timers_hide_is_expected_of_the_job() -> None:
    label = label_of(LONG, replace(LATE, phase="compute", last_step=119))
    assert (label.kind, label.ranks, label.why_not) == ("step_regression", (), "")
    assert label.culprits == (3,)
    short = label_of(LONG, replace(LATE, phase="compute", ms=2.0))
    assert short.why_not == "the timers do not show it, and steps are hardly longer"
    early = label_of(LONG, replace(LATE, phase="compute", first_step=0))
    assert early.why_not.startswith("acts from the first steps on")


def test_an_excess_within_the_noise_is_not_expected() -> None:
    habits = Habits(swing=0.4, swing_phase="rest", memory=20.0)
    noisy = replace(LONG, hides=(("rest", 1.0),), habits=habits)
    assert label_of(noisy, replace(LATE, ms=15.0)).ranks == ()
    assert label_of(LONG, replace(LATE, ms=15.0)).ranks == (3,)


def test_ranks_of_a_host_are_its_own_or_nobody() -> None:
    job = replace(LONG, num_ranks=16, ranks_per_host=8)
    fault = replace(LATE, ranks=tuple(range(8, 16)), phase="compute", independent=True)
    label = label_of(job, fault, host_wide=True)
    assert (label.hosts, label.ranks, label.or_nobody) == (("node 1",), fault.ranks, True)
    only = label_of(LONG, replace(fault, ranks=()), host_wide=True)
    assert (only.hosts, only.ranks, only.or_nobody) == (("node 0",), (), True)


def test_what_fits_a_late_rank_fits_all_ranks_of_a_host() -> None:
    job = replace(LONG, num_ranks=16, ranks_per_host=8)
    fault = replace(LATE, ranks=tuple(range(8, 16)), independent=True)
    in_data, in_compute = (
        label_of(job, replace(fault, phase=phase), host_wide=True).kinds
        for phase in ("data", "compute")
    )
    assert "data_loader" in in_data
    assert "data_loader" not in in_compute
    assert {"slow_host", "step_regression"} <= {*in_data} & {*in_compute}


def test_a_dose_that_nothing_reaches_is_refused() -> None:
    job = replace(LONG, habits=Habits(swing=0.2))
    assert dosed(job, LATE, 1.5).ms > 40
    with pytest.raises(ValueError, match="no dose"):
        dosed(job, replace(LATE, first_step=0, last_step=0, ranks=()), float("inf"))


def test_two_culprits_that_all_timers_hide_are_expected_of_the_job() -> None:
    faults = tuple(
        replace(LATE, ranks=(rank,), phase="compute", last_step=119, seed=rank) for rank in (3, 5)
    )
    plans = tuple(Plan("planted", fault) for fault in faults)
    labels = labels_of(replace(LONG, faults=faults), plans)
    assert [(label.kind, label.why_not) for label in labels] == [("step_regression", "")] * 2
