"""faulty_machine: who is named, who is not, and what the finding says, on tables built by hand."""

from __future__ import annotations

import numpy as np
import pytest

from diagnosis.detectors.faulty_machine import detect
from diagnosis.findings import Verdict
from tests.diagnosis.machine_tables import BEGIN_S, METRICS, Singles, machine_tables, steady

FROM = 300
CLOCK = METRICS.index("gpu_sm_clock_mhz")
CPU = METRICS.index("cpu_busy_seconds_total")


def judged(values_MTN: Singles, stages: list[int] | None = None) -> Verdict:
    verdict = detect(machine_tables(values_MTN, stages=stages), attempt=0)
    assert verdict is not None
    return verdict


def slowed(num_machines: int, share: float, machine: int = 2, until: int = 600) -> Singles:
    """One machine's clock falls by a share."""
    values_MTN = steady(num_machines)
    values_MTN[CLOCK, FROM:until, machine] *= 1 - share
    return values_MTN


@pytest.mark.parametrize("share", [0.6, 0.3, 0.12])
@pytest.mark.parametrize("num_machines", [4, 5, 8, 40])
def test_the_machine_whose_clock_falls_is_named(num_machines: int, share: float) -> None:
    (finding,) = judged(slowed(num_machines, share)).findings
    assert (finding.kind, finding.hosts) == ("faulty_machine", ("node0002",))
    assert [place.rank for place in finding.culprits] == [2]
    assert abs(finding.first_step - FROM // 10) <= 1
    assert finding.ongoing
    assert "SM clock lower" in finding.text


def test_the_evidence_is_the_mean_of_what_the_question_gives() -> None:
    values_MTN = slowed(8, 0.3)
    evidence = judged(values_MTN).findings[0].evidence[0]
    params = dict(evidence.params)
    first, last = int(params["from_s"]) - BEGIN_S, int(params["until_s"]) - BEGIN_S
    own_T = values_MTN[CLOCK, first : last + 1, 2].astype(float)
    assert (params["host"], params["metric"]) == ("node0002", "gpu_sm_clock_mhz")
    assert evidence.number == pytest.approx(own_T.mean(), abs=1e-5)


def test_what_is_over_is_past() -> None:
    (finding,) = judged(slowed(8, 0.5, until=420)).findings
    assert (finding.severity, finding.ongoing) == ("past", False)


@pytest.mark.sampled(every=4)
@pytest.mark.parametrize("seed", range(20))
def test_healthy_machines(seed: int) -> None:
    verdict = judged(steady(4 + seed, seed=seed))
    assert verdict.findings == ()
    assert verdict.checked is not None


@pytest.mark.parametrize("lasts", [5, 20, 40, 60])
def test_a_hiccup_of_up_to_a_minute_is_none(lasts: int) -> None:
    values_MTN = slowed(8, 0.5, until=FROM + lasts)
    values_MTN[CPU, FROM : FROM + lasts, 2] *= 0.3
    assert judged(values_MTN).findings == ()


def test_what_all_machines_do_is_no_fault() -> None:
    """A checkpoint, an evaluation and a restart, which machines enter up to eight seconds apart."""
    values_MTN = steady(8, 900)
    for begin, length, share in ((200, 40, 0.1), (400, 120, 0.5), (650, 90, 0.0)):
        for machine in range(8):
            span = slice(begin + machine, begin + machine + length)
            values_MTN[:5, span, machine] *= share
    assert judged(values_MTN).findings == ()


def test_an_odd_healthy_machine_stays_what_it_is() -> None:
    values_MTN = steady(8, 900)
    values_MTN[:, :, 3] *= 1.25
    values_MTN[:5, 400:520] *= 0.4  # follows by its share
    assert judged(values_MTN).findings == ()


def test_the_only_writer_of_a_checkpoint() -> None:
    values_MTN = steady(8)
    values_MTN[[3, 4], 300:390] *= 0.1
    values_MTN[CPU, 300:390, 0] *= 2.0
    assert judged(values_MTN).findings == ()


def test_lost_samples_are_no_fault() -> None:
    values_MTN = steady(8)
    lost = np.random.default_rng(3).random(values_MTN.shape) < 0.05
    values_MTN[lost] = np.nan
    assert judged(values_MTN).findings == ()
    values_MTN[CLOCK, FROM:, 2] *= 0.7
    assert judged(values_MTN).findings[0].hosts == ("node0002",)


def test_a_machine_that_falls_silent_is_named() -> None:
    values_MTN = steady(8)
    values_MTN[:, FROM:, 5] = np.nan
    (finding,) = judged(values_MTN).findings
    assert finding.hosts == ("node0005",)
    assert "samples missing" in finding.text


def test_a_metric_that_was_always_zero() -> None:
    values_MTN = steady(8)
    values_MTN[CLOCK] = 0.0
    assert judged(values_MTN).findings == ()
    values_MTN[CLOCK, FROM:, 2] = 1_980.0
    assert [finding.hosts for finding in judged(values_MTN).findings] == [("node0002",)]


def test_a_metric_that_one_machine_lacks() -> None:
    values_MTN = slowed(8, 0.4)
    values_MTN[CPU, :, 6] = np.nan
    assert [finding.hosts for finding in judged(values_MTN).findings] == [("node0002",)]


@pytest.mark.parametrize(("num_machines", "faulty"), [(4, 2), (8, 3), (40, 12)])
def test_many_at_once_name_nobody(num_machines: int, faulty: int) -> None:
    values_MTN = steady(num_machines)
    values_MTN[CLOCK, FROM:, :faulty] *= 0.6
    verdict = judged(values_MTN)
    assert verdict.findings == ()
    if faulty < num_machines / 2:
        assert f"{faulty} of {num_machines} machines" in verdict.set_aside[0]


def test_two_at_once_of_many_are_both_named() -> None:
    values_MTN = steady(40)
    values_MTN[CLOCK, FROM:, 3] *= 0.7
    values_MTN[CPU, FROM + 10 :, 9] *= 0.5
    assert {finding.hosts[0] for finding in judged(values_MTN).findings} == {"node0003", "node0009"}


def test_machines_are_compared_with_those_of_their_stage() -> None:
    """The second stage takes turns of its own, in which all of its machines differ from others."""
    values_MTN = steady(8)
    values_MTN[CPU, 250:400, 4:] *= 0.5
    values_MTN[CLOCK, 350:, 6] *= 0.8
    stages = [0, 0, 0, 0, 1, 1, 1, 1]
    assert [finding.hosts for finding in judged(values_MTN, stages).findings] == [("node0006",)]


def test_too_little_to_judge() -> None:
    assert judged(steady(3)).not_enough[0].missing.startswith("Fewer than four machines")
    assert "110 s" in judged(steady(8, 110)).not_enough[0].missing
    assert detect(machine_tables(steady(1)), attempt=0) is None
    empty = machine_tables(steady(4)) | {}
    empty["machine_seconds"] = empty["machine_seconds"].slice(0, 0)
    assert detect(empty, attempt=0) is None


def test_samples_every_fifteen_seconds() -> None:
    values_MTN = steady(8, 3_600)
    values_MTN[CLOCK, 2_000:, 2] *= 0.6
    thinned_MTN = np.full_like(values_MTN, np.nan)
    thinned_MTN[:, ::15] = values_MTN[:, ::15]
    (finding,) = judged(thinned_MTN).findings
    assert finding.hosts == ("node0002",)
    assert abs(finding.first_step - 200) <= 6
