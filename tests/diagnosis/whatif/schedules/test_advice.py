"""Which change saves most, for jobs whose answer is known."""

from __future__ import annotations

from dataclasses import replace

import pytest

from diagnosis.whatif.analysis import prepare, what_if
from diagnosis.whatif.operations import NotAnswerable, dense
from diagnosis.whatif.schedules.advice import Advice, Advised, advise, own_schedule
from diagnosis.whatif.schedules.measured import Measured, measured
from sample_traces.generate.straggler_trace import MegatronJob
from tests.whatif_traces import generated


def job_of(**sizes: object) -> tuple[Measured, float]:
    """A job, and the mean time of its steps, s."""
    job = MegatronJob(**{"num_steps": 3, **sizes})  # type: ignore[arg-type]
    prepared = prepare(dense(*generated(job)))
    return measured(prepared), what_if(prepared).T_base_s


def advised(**sizes: object) -> Advised:
    return advise(*job_of(**sizes), lambda: None)


def by_change(found: Advised, words: str) -> Advice:
    (one,) = [advice for advice in found.advice if words in advice.change]
    return one


@pytest.mark.parametrize(
    ("vpp", "m", "name"), [(1, 8, "1f1b"), (2, 8, "interleaved"), (2, 4, "interleaved")]
)
def test_the_order_of_a_job_is_recognized(vpp: int, m: int, name: str) -> None:
    job, _ = job_of(pp=4, dp=2, vpp=vpp, num_microbatches=m)
    assert own_schedule(job) == name


def test_of_an_even_job_the_closed_forms_are_found() -> None:
    found = advised(pp=4, dp=2, num_microbatches=8)
    assert found.error < 0.01
    span_s = found.step_s - found.rest_s
    each_s = span_s / (8 + 3)
    twice = by_change(found, "16 micro-batches of half")
    assert twice.step_s - found.rest_s == pytest.approx(each_s / 2 * (16 + 3), rel=0.02)
    fewer = by_change(found, "pp 2")
    assert fewer.step_s - 2 * found.rest_s == pytest.approx(2 * each_s * (4 + 1), rel=0.02)
    more = by_change(found, "pp 8")
    assert more.step_s - found.rest_s / 2 == pytest.approx(each_s / 2 * (16 + 7), rel=0.02)
    for words in ("equal time", "ranks as fast", "equal size"):
        assert abs(by_change(found, words).saves) < 0.02


@pytest.mark.parametrize("pp", [2, 4])
def test_a_slow_rank_is_no_reason_to_cut_the_model_otherwise(pp: int) -> None:
    found = advised(pp=pp, dp=4, num_microbatches=8, slow=((1, 2, 1.8),))
    assert by_change(found, "ranks as fast").saves > 0.25
    assert by_change(found, "equal time").saves < 0.02
    assert by_change(found, "equal size").saves < 0.02
    for advice in found.advice:
        if advice.change.startswith("pp "):
            assert advice.saves < 0.05, advice.change


@pytest.mark.parametrize("spread", [0.05, 0.1])
def test_what_even_ranks_save_is_right_within_the_error_that_is_stated(spread: float) -> None:
    noisy = {"pp": 4, "dp": 4, "num_microbatches": 8, "num_steps": 10, "spread": spread}
    slow, slow_s = job_of(**noisy, slow=((1, 2, 1.8),))
    _, healthy_s = job_of(**noisy)
    even = by_change(advise(slow, slow_s, lambda: None), "ranks as fast")
    assert abs(even.saves - (1 - healthy_s / slow_s)) < even.error


def test_a_slow_stage_is_one() -> None:
    slow = tuple((3, dp, 1.8) for dp in range(4))
    found = advised(pp=4, dp=4, num_microbatches=8, slow=slow)
    assert by_change(found, "equal time").saves > 0.2
    assert by_change(found, "equal time").is_certain
    assert by_change(found, "ranks as fast").saves < 0.02


def test_what_a_change_needs_is_said() -> None:
    found = advised(pp=4, dp=2, num_microbatches=8)
    assert "memory for 2 times the activations" in by_change(found, "gpipe").needs
    assert "twice the weights" in " ".join(by_change(found, "pp 2").needs)
    assert "backwards in two parts" in by_change(found, "zbv").needs
    assert "micro-batches that can be divided" in by_change(found, "32 micro-batches").needs


def test_much_more_memory_is_given_in_whole_numbers() -> None:
    found = advised(pp=2, dp=1, num_microbatches=256)
    assert "memory for 128 times the activations" in by_change(found, "gpipe").needs


@pytest.mark.long
def test_a_job_of_very_many_micro_batches_has_the_changes_that_can_be_replayed() -> None:
    found = advised(pp=2, dp=1, num_microbatches=1030)
    changes = [advice.change for advice in found.advice]
    assert "2060 micro-batches of half the size" in changes
    assert not [change for change in changes if "4120" in change]


def test_an_order_of_its_own_is_compared_with_nothing() -> None:
    job, step_s = job_of(pp=4, dp=1, num_microbatches=8)
    unknown = replace(job, order=tuple(tuple(reversed(ops)) for ops in job.order))
    assert own_schedule(unknown) == ""
    with pytest.raises(NotAnswerable, match="no schedule that rankscope knows"):
        advise(unknown, step_s, lambda: None)


def test_a_job_that_its_replay_does_not_explain_gets_no_advice() -> None:
    """Such as one whose gradients of weights run in gaps: its order is that of 1F1B otherwise."""
    job, step_s = job_of(pp=4, dp=1, num_microbatches=8)
    other = replace(job, measured_s=0.8 * job.measured_s)
    with pytest.raises(NotAnswerable, match="by replay of its own schedule"):
        advise(other, step_s, lambda: None)


def test_a_stage_without_time_is_named() -> None:
    job, step_s = job_of(pp=2, dp=1, num_microbatches=4)
    cells = [replace(step[0], forward_PVM=step[0].forward_PVM * 1.0) for step in job.steps]
    for cell in cells:
        cell.forward_PVM[1] = 0
    idle = replace(job, steps=tuple((cell,) for cell in cells))
    with pytest.raises(NotAnswerable, match=r"stage 1 usually takes no time|by replay"):
        advise(idle, step_s, lambda: None)
