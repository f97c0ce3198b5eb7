"""Which change saves most, for jobs whose answer is known."""

from __future__ import annotations

import pytest

from diagnosis.whatif.analysis import prepare, what_if
from diagnosis.whatif.operations import dense
from diagnosis.whatif.schedules.advice import Advice, Advised, advise, own_schedule
from diagnosis.whatif.schedules.measured import measured
from sample_traces.generate.straggler_trace import MegatronJob
from tests.whatif_traces import generated


def advised(**job: object) -> Advised:
    prepared = prepare(dense(*generated(MegatronJob(num_steps=3, **job))))  # type: ignore[arg-type]
    return advise(measured(prepared), what_if(prepared).T_base_s, lambda: None)


def by_change(found: Advised, words: str) -> Advice:
    (one,) = [advice for advice in found.advice if words in advice.change]
    return one


@pytest.mark.parametrize(("vpp", "name"), [(1, "1f1b"), (2, "interleaved")])
def test_the_order_of_a_job_is_recognized(vpp: int, name: str) -> None:
    prepared = prepare(dense(*generated(MegatronJob(pp=4, dp=2, vpp=vpp, num_steps=3))))
    assert own_schedule(measured(prepared)) == name


def test_of_an_even_job_the_closed_forms_are_found() -> None:
    found = advised(pp=4, dp=2, num_microbatches=8)
    assert found.error < 0.01
    span_s = found.step_s - found.rest_s
    each_s = span_s / (8 + 3)
    twice = by_change(found, "16 micro-batches")
    assert twice.step_s - found.rest_s == pytest.approx(each_s / 2 * (16 + 3), rel=0.02)
    fewer = by_change(found, "pp 2")
    assert fewer.step_s - 2 * found.rest_s == pytest.approx(2 * each_s * (4 + 1), rel=0.02)
    more = by_change(found, "pp 8")
    assert more.step_s - found.rest_s / 2 == pytest.approx(each_s / 2 * (16 + 7), rel=0.02)
    assert abs(by_change(found, "equal time").saves) < 0.02
    assert abs(by_change(found, "no stragglers").saves) < 0.02


def test_a_slow_rank_is_no_reason_to_cut_the_model_otherwise() -> None:
    found = advised(pp=4, dp=4, num_microbatches=8, slow=((1, 2, 1.8),))
    assert by_change(found, "no stragglers").saves > 0.25
    assert by_change(found, "equal time").saves < 0.02
    assert by_change(found, "pp 2").saves < 0.05


def test_a_slow_stage_is_one() -> None:
    slow = tuple((3, dp, 1.8) for dp in range(4))
    found = advised(pp=4, dp=4, num_microbatches=8, slow=slow)
    assert by_change(found, "equal time").saves > 0.2
    assert by_change(found, "equal time").is_certain
    assert by_change(found, "no stragglers").saves < 0.02


def test_what_needs_more_memory_says_so() -> None:
    found = advised(pp=4, dp=2, num_microbatches=8)
    assert "memory for 2 times the activations" in by_change(found, "gpipe").needs
    assert "twice the weights" in " ".join(by_change(found, "pp 2").needs)
