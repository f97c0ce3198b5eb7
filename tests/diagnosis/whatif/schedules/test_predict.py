"""What other schedules would give the published jobs, and jobs whose times are known."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from diagnosis.whatif.analysis import prepare
from diagnosis.whatif.operations import NotAnswerable, dense
from diagnosis.whatif.schedules.changes import Changes
from diagnosis.whatif.schedules.holding import most_held_by_device
from diagnosis.whatif.schedules.measured import Cell, Measured, measured
from diagnosis.whatif.schedules.memory import StageMemory
from diagnosis.whatif.schedules.names import NAMES
from diagnosis.whatif.schedules.plan import FORWARD, Op
from diagnosis.whatif.schedules.predict import plan_for, predict, replayed_cell
from sample_traces.generate.straggler_trace import MegatronJob
from tests.whatif_traces import generated, needs_traces, published

SCHEDULES = ("1f1b", "gpipe", "interleaved", "breadth-first", "depth-first", "zb-h1")
SPANS_S = {
    "ST": (2.011, 2.011, 1.696, 1.696, 1.811, 1.580),
    "SE": (8.942, 8.563, 8.190, 8.127, 8.900, 7.949),
    "AR": (45.49, 47.13, 45.29, 46.21, 45.47, 45.29),
}
BUBBLES = {
    "ST": (0.514, 0.514, 0.423, 0.423, 0.460, 0.381),
    "SE": (0.249, 0.239, 0.208, 0.206, 0.253, 0.192),
    "AR": (0.191, 0.196, 0.162, 0.165, 0.178, 0.153),
}
"""Of SCHEDULES, by an implementation that is not ours."""


def of(trial: str) -> Measured:
    return measured(prepare(dense(*published(trial))))


@needs_traces
@pytest.mark.parametrize("trial", SPANS_S)
def test_published_jobs_under_other_schedules(trial: str) -> None:
    times = of(trial)
    wanted = zip(SCHEDULES, SPANS_S[trial], BUBBLES[trial], strict=True)
    for name, span_s, bubble in wanted:
        found = predict(times, name)
        assert found.span_s == pytest.approx(span_s, rel=0.005), name
        assert found.bubble == pytest.approx(bubble, abs=0.0015), name


@pytest.fixture(scope="module")
def job() -> Measured:
    return measured(prepare(dense(*generated(MegatronJob(pp=4, dp=2, num_steps=4)))))


@pytest.mark.parametrize("name", NAMES)
def test_a_prediction_says_what_it_assumes(job: Measured, name: str) -> None:
    found = predict(job, name)
    if found.reason:
        assert found.span_s is None
        return
    assert found.low_s is not None
    assert found.high_s is not None
    assert found.span_s is not None
    assert found.expected_s is not None
    assert found.low_s <= found.expected_s <= found.high_s or found.low_s == found.high_s
    said = any("Gradients of weights" in text for text in found.assumptions)
    assert said == plan_for(job, name).is_split
    assert any("chunks" in text for text in found.assumptions) == (plan_for(job, name).chunks > 1)
    assert any("post-validation" in text for text in found.assumptions) == (name == "zb-h2")
    if name != "zb-h2":
        spans = [max(replayed_cell(job, name, step, dp).span_s for dp in (0, 1)) for step in (0, 1)]
        assert min(spans) <= found.high_s
        assert max(spans) >= found.low_s


def test_memory_follows_from_what_is_held(job: Measured) -> None:
    known = replace(job, memory=StageMemory(np.array([1e9, 2e9, 1e9, 1e9]), np.full(4, 20e9)))
    found = predict(known, "1f1b")
    assert found.memory_bytes == 6e9  # stage 1 holds three of two
    assert found.peak_bytes == (20e9,) * 4  # as it ran
    gpipe = predict(known, "gpipe")
    assert gpipe.peak_bytes == (24e9, 30e9, 26e9, 27e9)
    half = predict(known, "1f1b", Changes(microbatches=16))
    assert (half.memory_bytes, half.peak_bytes) == (3e9, (18e9, 17e9, 19e9, 19.5e9))
    assert predict(known, "fbd").peak_bytes is None
    assert predict(known, "1f1b", Changes(split=(1.0, 2.0, 1.0, 1.0))).memory_bytes is None
    assert predict(job, "1f1b").memory_bytes is None
    assert any("was not recorded" in text for text in predict(job, "1f1b").assumptions)


def test_a_limit_of_memory_says_how_many_micro_batches_each_device_holds(job: Measured) -> None:
    known = replace(job, memory=StageMemory(np.array([1e9, 2e9, 1e9, 1e9]), np.full(4, 20e9)))
    limit = Changes(memory_limit=22.5e9)
    assert most_held_by_device(known, limit) == (6, 4, 4, 3)
    assert most_held_by_device(known, replace(limit, microbatches=16)) == (13, 8, 9, 7)
    refused = predict(known, "gpipe", limit)
    assert "its device 0 holds 8 micro-batches; 6 may be held" in refused.reason
    within = predict(known, "breadth-first", limit)
    assert within.peak_bytes is not None
    assert max(within.peak_bytes) <= 22.5e9
    assert within.in_flight[0] > within.in_flight[3]
    for changes, sentence in (
        (Changes(memory_limit=19.5e9), "stage 3 needs 20 GB for one micro-batch, and 19.5 GB"),
        (replace(limit, split=(1.0, 1.0, 1.0, 1.0)), "with other stages"),
    ):
        with pytest.raises(ValueError, match=sentence):
            most_held_by_device(known, changes)
    with pytest.raises(ValueError, match="was not recorded"):
        most_held_by_device(job, limit)


def test_one_stage_has_nothing_to_schedule() -> None:
    with pytest.raises(NotAnswerable, match="one pipeline stage"):
        measured(prepare(dense(*generated(MegatronJob(pp=1, dp=4, num_steps=3)))))


EVEN = MegatronJob(pp=4, dp=2, num_steps=3)


def span(times: Measured, name: str, **changes: object) -> float:
    found = predict(times, name, changes=Changes(**changes))  # type: ignore[arg-type]
    assert found.span_s is not None, found.reason
    return found.span_s


def test_more_micro_batches_leave_smaller_gaps_and_the_same_work(job: Measured) -> None:
    m = job.sizes[2]
    once, twice = span(job, "1f1b"), span(job, "1f1b", microbatches=2 * m)
    work = once * m / (m + 3)
    assert twice == pytest.approx(work * (2 * m + 3) / (2 * m), rel=0.02)


def test_a_balanced_job_takes_the_mean_of_its_stages() -> None:
    uneven = MegatronJob(pp=4, dp=1, num_steps=3, slow=((3, 0, 2.0),))
    times = measured(prepare(dense(*generated(uneven))))
    even = measured(prepare(dense(*generated(MegatronJob(pp=4, dp=1, num_steps=3)))))
    balanced = span(times, "1f1b", split=(1.0, 1.0, 1.0, 1.0))
    assert balanced == pytest.approx(1.25 * span(even, "1f1b"), rel=0.03)


def test_without_stragglers_a_slow_replica_is_as_fast_as_the_others() -> None:
    slow = measured(
        prepare(dense(*generated(MegatronJob(pp=4, dp=4, num_steps=3, slow=((1, 2, 1.6),)))))
    )
    even = measured(prepare(dense(*generated(MegatronJob(pp=4, dp=4, num_steps=3)))))
    assert span(slow, "1f1b") > 1.3 * span(even, "1f1b")
    assert span(slow, "1f1b", has_stragglers=False) == pytest.approx(span(even, "1f1b"), rel=0.03)


def test_what_memory_does_not_allow_is_said(job: Measured) -> None:
    assert predict(job, "1f1b", changes=Changes(most_held=4)).span_s is not None
    refused = predict(job, "gpipe", changes=Changes(most_held=4))
    assert "its device 0 holds 8 micro-batches; 4 may be held" in refused.reason
    within = predict(job, "breadth-first", changes=Changes(most_held=5))
    assert max(within.in_flight) <= 5
    assert within.span_s is not None


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"microbatches": 0}, "whole number from 1"),
        ({"chunks": 99}, "whole number from 1 to 16"),
        ({"split": (1.0, -1.0)}, "above 0"),
        ({"split": (float("nan"),)}, "above 0"),
    ],
)
def test_changes_that_make_no_job_are_refused(changes: dict[str, object], why: str) -> None:
    with pytest.raises(ValueError, match=why):
        Changes(**changes)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        (Changes(split=(1.0,)), "1 share of stages is given, and the job has 4"),
        (Changes(split=(1.0, 1.0)), "2 shares of stages are given, and the job has 4"),
        (Changes(microbatches=4_000, chunks=16), "more than can be replayed"),
    ],
)
def test_changes_that_do_not_fit_the_job_are_named(
    job: Measured, changes: Changes, why: str
) -> None:
    assert why in predict(job, "interleaved", changes=changes).reason


def test_gaps_between_operations_are_measured_and_expected_again() -> None:
    times = measured(prepare(dense(*generated(EVEN))))
    assert times.own_gap_s == pytest.approx(0, abs=1e-4)
    hesitant = replace(times, own_gap_s=1e-3, message_gap_s=2e-3)
    found = predict(hesitant, "1f1b")
    assert found.span_s == pytest.approx(predict(times, "1f1b").span_s)
    m = times.sizes[2]
    assert found.expected_s is not None
    assert found.span_s is not None
    more = found.expected_s - found.span_s
    assert 2e-3 * m < more < 2 * 2e-3 * (m + 4)


def uneven(job: Measured, last: float) -> Measured:
    """Two chunks of a stage: forwards of 1 s, those of the last virtual stage `last`; no rest."""
    forward_PVM = np.ones((2, 2, 4))
    forward_PVM[1, 1] = last
    cell = Cell(forward_PVM, np.zeros((2, 2, 4)))
    none_P = np.zeros(2)
    return replace(job, steps=((cell,),), forward_transfer_P=none_P, backward_transfer_P=none_P)


def test_layers_keep_their_time_where_a_v_puts_them_elsewhere(job: Measured) -> None:
    """The last virtual stage is on the first device then."""
    at = {}
    for name in ("interleaved", "zbv"):
        made = replayed_cell(uneven(job, 5.0), name, 0, 0)
        (slow,) = {op.stage for op in made.end_s if made.end_s[op] - made.start_s[op] == 5.0}
        at[name] = slow, made.plan.device_of[Op(FORWARD, slow, 0)]
    assert at == {"interleaved": (3, 1), "zbv": (3, 0)}


def test_a_v_takes_the_link_between_its_devices(job: Measured) -> None:
    """Forwards come back over the link that they went, the other way."""
    p = job.sizes[0]
    slow_link = replace(
        job, forward_transfer_P=np.zeros(p), backward_transfer_P=np.array([0.0, 3.0, 0.0, 0.0])
    )
    made = replayed_cell(slow_link, "zbv", 0, 0)
    back = Op(FORWARD, 2 * p - 2, 0), Op(FORWARD, 2 * p - 1, 0)
    assert [made.plan.device_of[op] for op in back] == [1, 0]
    assert made.start_s[back[1]] >= made.end_s[back[0]] + 3.0
    down = Op(FORWARD, 0, 0), Op(FORWARD, 1, 0)
    assert made.start_s[down[1]] < made.end_s[down[0]] + 3.0


def test_devices_of_their_own_for_backwards_hold_the_activations(job: Measured) -> None:
    m = job.sizes[2]
    held = predict(job, "fbd").in_flight
    assert held[:4] == (1, 1, 1, 1)
    assert all(1 <= one <= m for one in held[4:])
    assert max(held) > 1


def _even(p: int, m: int, forward_s: float, backward_s: float) -> Measured:
    """One replica and one step of equal stages, without transfers and gaps."""
    forward, backward = (np.full((p, 1, m), seconds) for seconds in (forward_s, backward_s))
    return Measured(((Cell(forward, backward),),), (0,), np.zeros(p), np.zeros(p), False)


@pytest.mark.parametrize(("speed", "handover_s"), [(1.0, 0.0), (0.25, 0.0), (0.5, 0.3), (4.0, 2.0)])
def test_forwards_on_devices_of_another_speed_and_a_hand_over_have_a_closed_form(
    speed: float, handover_s: float
) -> None:
    p, m, f, b = 4, 8, 1.0, 2.0
    changes = Changes(forward_speed=speed, handover_s=handover_s)
    found = predict(_even(p, m, f, b), "fbd", changes)
    f /= speed
    assert found.span_s == pytest.approx(p * f + handover_s + (m - 1) * max(f, b) + p * b)
    busy_s = p * m * (f + b)
    assert found.bubble == pytest.approx(1 - busy_s / (2 * p * found.span_s))


def test_the_devices_of_forwards_are_only_changed_where_forwards_have_their_own(
    job: Measured,
) -> None:
    changes = Changes(forward_speed=0.5, handover_s=1.0)
    for name in NAMES:
        own = predict(job, name).span_s, predict(job, name, changes).span_s
        assert (own[0] != own[1]) == (name == "fbd"), name
    said = predict(job, "fbd", changes).assumptions
    assert any("those of forwards 0.5 times as fast" in text for text in said)
    assert any("1000 ms later, while both devices go on" in text for text in said)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"forward_speed": 0.0}, "the speed of the devices of forwards is 0; give a number from"),
        ({"forward_speed": float("nan")}, "the speed of the devices of forwards is nan"),
        ({"handover_s": -1.0}, "handing over activations takes -1000 ms"),
    ],
)
def test_speeds_and_hand_overs_that_cannot_be_are_a_sentence(
    changes: dict[str, float], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        Changes(**changes)


def test_a_stage_without_time_has_no_share(job: Measured) -> None:
    cell = job.steps[0][0]
    idle_PVM = cell.forward_PVM.copy()
    idle_PVM[2] = 0
    idle = replace(job, steps=((Cell(idle_PVM, cell.backward_PVM),),))
    found = predict(idle, "1f1b", changes=Changes(split=(1.0,) * 4))
    assert "stage 2 usually takes no time" in found.reason


def test_of_large_jobs_fewer_steps_are_replayed(
    job: Measured, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = predict(job, "1f1b")
    monkeypatch.setattr("diagnosis.whatif.schedules.predict.MOST_TIMES", 1)
    part = predict(job, "1f1b")
    assert part.low_s == part.high_s
    assert part.span_s == pytest.approx(whole.span_s, rel=0.05)
