"""busy_hosts: contention of a host that holds whole stages, and what is none, on hand-built tables
and generated jobs.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from app.analysis.diagnosis import diagnose_run
from diagnosis.detectors.host_contention import detect
from diagnosis.findings import Verdict
from ingest.run import open_run
from sample_traces.generate.faults import SyntheticFault
from sample_traces.generate.job import SyntheticJob
from sample_traces.generate.tables.write import generate
from tests.diagnosis.work_tables import phase_tables
from trace_hooks.layout import ParallelLayout

PP3_TP4 = ParallelLayout.from_sizes(pp=3, tp=4)
STEPS, FROM = 30, 9


def judged(
    forward: float,
    backward: float,
    ranks: range = range(4, 8),
    layout: ParallelLayout = PP3_TP4,
    seed: int = 1,
    device: str = "cpu",
) -> Verdict | None:
    """Hosts of four ranks; some stand still for this many ms longer from a step on."""
    random = np.random.default_rng(seed)

    def phases(rank: int, step: int) -> dict[str, float]:
        idle = [abs(float(random.normal(2, 1))) for _ in range(2)]
        if rank in ranks and step >= FROM:
            idle = [idle[0] + forward, idle[1] + backward]
        return {
            "cpu_ms": 130.0 + rank // 4,
            "compute_ms": 130.0 + rank // 4 + sum(idle),
            "forward_idle_ms": idle[0],
            "backward_idle_ms": idle[1],
            "step_ms": 200.0 + sum(idle),
        }

    tables = phase_tables(layout, STEPS, phases, device=device, ranks_per_host=4)
    return detect(tables, attempt=0)


@pytest.mark.parametrize("ms", [80.0, 30.0, 16.0])
def test_a_host_of_one_stage(ms: float) -> None:
    verdict = judged(ms / 3, 2 * ms / 3)
    assert verdict is not None
    (finding,) = verdict.findings
    assert (finding.kind, finding.hosts) == ("host_contention", ("node1",))
    assert [place.rank for place in finding.culprits] == [4, 5, 6, 7]
    assert abs(finding.first_step - FROM) <= 1


@pytest.mark.parametrize("seed", range(5))
def test_healthy_hosts(seed: int) -> None:
    verdict = judged(0.0, 0.0, seed=seed)
    assert verdict is not None
    assert verdict.findings == ()
    assert verdict.checked is not None


def test_one_direction_or_one_rank_is_no_contention_of_a_host() -> None:
    for verdict in (judged(60.0, 0.0), judged(20.0, 40.0, range(5, 6))):
        assert verdict is not None
        assert verdict.findings == ()


def test_a_host_for_which_the_others_wait_inside_their_compute() -> None:
    """All ranks are through at the same time; those that wait use their CPU meanwhile."""

    def phases(rank: int, step: int) -> dict[str, float]:
        longer = 45.0 if step >= FROM else 0.0
        still = longer if 4 <= rank < 8 else 0.0
        return {
            "cpu_ms": 130.0 + longer - still,
            "compute_ms": 130.0 + longer,
            "forward_idle_ms": still / 3,
            "backward_idle_ms": 2 * still / 3,
            "step_ms": 200.0 + longer,
        }

    layout = ParallelLayout.from_sizes(dp=12)
    tables = phase_tables(layout, STEPS, phases, device="cpu", ranks_per_host=4)
    verdict = detect(tables, attempt=0)
    assert verdict is not None
    (finding,) = verdict.findings
    assert finding.hosts == ("node1",)
    assert [place.rank for place in finding.culprits] == [4, 5, 6, 7]
    assert abs(finding.first_step - FROM) <= 1


def test_hosts_that_share_a_stage() -> None:
    verdict = judged(20.0, 40.0, layout=ParallelLayout.from_sizes(dp=12))
    assert verdict is not None
    assert [finding.hosts for finding in verdict.findings] == [("node1",)]
    assert judged(0.0, 0.0, layout=ParallelLayout.from_sizes(dp=12)) is None


def test_a_host_alone_and_devices_are_left_to_others() -> None:
    assert judged(20.0, 40.0, layout=ParallelLayout.from_sizes(tp=4), ranks=range(4)) is None
    assert judged(20.0, 40.0, device="cuda:0") is None


@pytest.mark.sampled
@pytest.mark.parametrize("faults", [("host_contention=1,x=1.4,from=8",), ()])
def test_generated_jobs_of_two_and_three_hosts(tmp_path: Path, faults: tuple[str, ...]) -> None:
    for pp in (2, 3):
        planted = tuple(map(SyntheticFault.parse, faults))
        job = SyntheticJob(8 * pp, pp=pp, tp=4, num_steps=24, level="steps", faults=planted)
        generate(job, tmp_path / str(pp))
        with open_run(tmp_path / str(pp)) as run:
            findings = diagnose_run(run).findings
        assert [(f.kind, f.hosts, abs(f.first_step - 8) <= 2) for f in findings] == [
            ("host_contention", ("node0001",), True)
        ][: len(faults)]
