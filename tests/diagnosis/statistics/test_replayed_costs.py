"""Costs by replay against the same simulated jobs without their faults."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from diagnosis.findings import Cost, Diagnosis, Evidence, Finding, Place, Verdict
from diagnosis.statistics.replayed_costs import with_replayed_costs
from diagnosis.whatif.analysis import Prepared, prepare
from diagnosis.whatif.operations import dense
from diagnosis.whatif.replay import Scenarios, step_times
from sample_traces.generate.straggler_trace import MegatronJob
from tests.whatif_traces import generated

JOB = MegatronJob(4, 4, num_steps=12, num_microbatches=6)
UNEVEN = replace(JOB, spread=0.4)
"""Micro-batches of uneven work: a slow rank waits for others anyway, and costs less."""

CLAIMED_MS = 500.0


def prepared(job: MegatronJob) -> Prepared:
    return prepare(dense(*generated(job)))


def steps_ms(job: MegatronJob) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    of_job = prepared(job)
    everywhere = Scenarios(1, [(0,)] * len(of_job.ideal_O))
    return 1e3 * step_times(of_job.graph, of_job.own_OSD, of_job.ideal_O, everywhere)[0][0]


def finding(kind: str, slowdown: float, first: int = 0, **given: object) -> Finding:
    evidence = Evidence("It is slow.", slowdown, "x", "rank_work", (), ())
    return Finding(
        kind=kind,
        attempt=0,
        severity="urgent",
        confidence="high",
        title="Slow",
        text="It is slow.",
        first_step=first,
        last_step=JOB.num_steps - 1,
        ongoing=True,
        slowdown=slowdown,
        cost=Cost(CLAIMED_MS, 1000.0, JOB.num_steps - first, 16),
        evidence=(evidence,),
        alternatives=(),
        next_step="Look.",
        **given,  # type: ignore[arg-type]
    )


def replayed(job: MegatronJob, *findings: Finding) -> tuple[Finding, ...]:
    return with_replayed_costs(Diagnosis((Verdict("any", findings),)), prepared(job)).findings


def ranks(job: MegatronJob, *cells: tuple[int, int]) -> tuple[Place, ...]:
    rank_PD = prepared(job).ops.rank_PD
    return tuple(Place(int(rank_PD[cell])) for cell in cells)


@pytest.mark.parametrize("job", [JOB, UNEVEN], ids=["even", "uneven"])
@pytest.mark.parametrize("since", [0, 6])
def test_a_slow_rank_costs_what_the_job_without_it_saves(job: MegatronJob, since: int) -> None:
    faulty = replace(job, slow=((1, 2, 1.5),), since=since)
    (found,) = replayed(faulty, finding("slow_worker", 1.5, since, culprits=ranks(faulty, (1, 2))))
    true_ms = (steps_ms(faulty) - steps_ms(job))[since:].mean()
    assert found.cost is not None
    assert found.cost.ms_per_step == pytest.approx(true_ms, rel=0.05)
    assert found.cost.ms_per_step < CLAIMED_MS / 2
    assert found.evidence[-1].number == found.cost.ms_per_step
    assert found.evidence[-1].question == "whatif_ops"


def test_a_slow_stage_a_slow_link_and_a_slow_network() -> None:
    stage = replace(JOB, slow=tuple((2, dp, 1.4) for dp in range(4)))
    link = replace(JOB, slow_links=((0, 1, 40.0),))
    network = replace(JOB, slow_networks=((3, 8.0),))
    for faulty, of_fault in (
        (stage, finding("slow_stage", 1.4, stages=(2,))),
        (link, finding("slow_link", 40.0, culprits=ranks(link, (0, 1), (1, 1)))),
        (network, finding("slow_dp_network", 8.0, stages=(3,))),
    ):
        (found,) = replayed(faulty, of_fault)
        true_ms = float((steps_ms(faulty) - steps_ms(JOB)).mean())
        assert found.cost is not None
        assert found.cost.ms_per_step == pytest.approx(true_ms, rel=0.1), of_fault.kind


def test_two_slow_ranks_cost_each_what_it_would_alone() -> None:
    cells = ((1, 2), (2, 0))
    faulty = replace(JOB, slow=tuple((*cell, 1.5) for cell in cells))
    found = replayed(
        faulty, *(finding("slow_worker", 1.5, culprits=ranks(faulty, cell)) for cell in cells)
    )
    cost_ms = {f.culprits[0].rank: f.cost.ms_per_step for f in found if f.cost is not None}
    for cell in cells:
        alone_ms = steps_ms(replace(JOB, slow=((*cell, 1.5),))) - steps_ms(JOB)
        rank = ranks(faulty, cell)[0].rank
        assert cost_ms[rank] == pytest.approx(float(alone_ms.mean()), rel=0.05)


def test_what_hides_behind_other_waiting_is_not_urgent() -> None:
    faulty = replace(JOB, slow=((1, 2, 3.0), (1, 3, 1.2)))
    small = finding("slow_worker", 1.01, culprits=ranks(faulty, (0, 0)))
    large = finding("slow_worker", 3.0, culprits=ranks(faulty, (1, 2)))
    severities = {f.slowdown: f.severity for f in replayed(faulty, small, large)}
    assert severities == {1.01: "warning", 3.0: "urgent"}


def test_other_findings_stay_as_they_are() -> None:
    others = (
        replace(finding("slow_worker", 1.5), cost=None),
        replace(finding("slow_worker", 1.5), slowdown=None),
        finding("sequence_imbalance", 1.5),
    )
    assert set(map(id, replayed(JOB, *others))) == set(map(id, others))
