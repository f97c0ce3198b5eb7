"""Schedules: every operation once, closed forms, memory, and what torch would run."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from diagnosis.whatif.schedules import greedy, orders
from diagnosis.whatif.schedules.plan import BACKWARD, FORWARD, WEIGHTS, Op, Plan
from diagnosis.whatif.schedules.replay import Replayed, Took, period_s, replay


def times(forward: float, backward: float, weights: float = 0.0, chunks: int = 1) -> Took:
    """The same for all stages and micro-batches; parts of a stage take their part."""
    by_kind = {FORWARD: forward, BACKWARD: backward, WEIGHTS: weights}
    return lambda op: by_kind[op.kind] / chunks


FIXED: dict[str, Callable[[int, int], Plan]] = {
    "gpipe": orders.gpipe,
    "1f1b": orders.one_f_one_b,
    "interleaved": lambda p, m: orders.interleaved(p, m, 2),
    "breadth-first": lambda p, m: orders.breadth_first(p, m, 2),
    "zb-h1": orders.zero_bubble_h1,
    "zb-h2": orders.zero_bubble_h2,
    "interleaved-zb": lambda p, m: orders.interleaved_zero_bubble(p, m, 2),
    "zbv": orders.zbv,
    "dualpipe-v": orders.dualpipe_v,
    "fbd": orders.decoupled,
    "depth-first": lambda p, m: greedy.depth_first(p, m, 2, times(1, 2, chunks=2)),
}


@pytest.mark.parametrize("name", FIXED)
@pytest.mark.parametrize(("p", "m"), [(1, 2), (2, 4), (3, 6), (4, 8), (4, 20)])
def test_every_operation_runs_once_and_after_what_it_needs(name: str, p: int, m: int) -> None:
    plan = FIXED[name](p, m)
    kinds = (FORWARD, BACKWARD, WEIGHTS) if plan.is_split else (FORWARD, BACKWARD)
    made = [op for ops in plan.orders for op in ops]
    wanted = {
        Op(kind, stage, i) for kind in kinds for stage in range(plan.num_stages) for i in range(m)
    }
    assert len(made) == len(wanted)
    assert set(made) == wanted
    done = replay(plan, times(1.0, 2.0, 1.5, plan.chunks))
    for op in made:
        assert all(done.end_s[one] <= done.start_s[op] for one in plan.before(op))
    assert 0 <= done.bubble < 1


def drawn(seed: int, multiple: bool = True) -> tuple[int, int, float, float]:
    source = random.Random(seed)
    p = source.randint(1, 8)
    m = p * source.randint(1, 6) if multiple else source.randint(1, 30)
    return p, m, source.uniform(0.5, 2), source.uniform(0.5, 4)


@pytest.mark.parametrize("seed", range(40))
def test_gpipe_and_1f1b_take_what_their_closed_form_says(seed: int) -> None:
    p, m, f, b = drawn(seed, multiple=False)
    for plan in (orders.gpipe(p, m), orders.one_f_one_b(p, m)):
        done = replay(plan, times(f, b))
        assert done.span_s == pytest.approx((m + p - 1) * (f + b))
        assert done.bubble == pytest.approx((p - 1) / (m + p - 1))


@pytest.mark.parametrize("seed", range(40))
@pytest.mark.parametrize("v", [2, 3])
def test_interleaved_and_breadth_first_take_what_their_closed_form_says(seed: int, v: int) -> None:
    p, m, f, b = drawn(seed)
    for plan in (orders.interleaved(p, m, v), orders.breadth_first(p, m, v)):
        done = replay(plan, times(f, b, chunks=v))
        assert done.span_s == pytest.approx(m * (f + b) + (p - 1) * (f + b) / v)
        assert done.bubble == pytest.approx((p - 1) / (v * m + p - 1))


@pytest.mark.parametrize("seed", range(40))
def test_zero_bubble_h1_takes_what_its_closed_form_says(seed: int) -> None:
    p, _, f, _ = drawn(seed)
    m = p + seed
    done = replay(orders.zero_bubble_h1(p, m), times(f, f, f))
    assert done.bubble == pytest.approx((p - 1) / (3 * m + p - 1))


@pytest.mark.parametrize("seed", range(40))
def test_forwards_and_backwards_on_devices_of_their_own(seed: int) -> None:
    p, m, f, b = drawn(seed, multiple=False)
    done = replay(orders.decoupled(p, m), times(f, b), lambda first, then: 0.0)
    assert done.span_s == pytest.approx(p * f + (m - 1) * max(f, b) + p * b)


def test_depth_first_lies_between_interleaved_and_1f1b() -> None:
    took = times(1, 2, chunks=2)
    done = replay(greedy.depth_first(4, 8, 2, took), took)
    assert done.span_s == pytest.approx(32)
    assert replay(orders.interleaved(4, 8, 2), took).span_s == pytest.approx(28.5)
    assert replay(orders.one_f_one_b(4, 8), times(1, 2)).span_s == pytest.approx(33)


@pytest.mark.parametrize(
    ("name", "held"),
    [
        ("gpipe", (8, 8, 8, 8)),
        ("1f1b", (4, 3, 2, 1)),
        ("interleaved", (11, 9, 7, 5)),
        ("breadth-first", (16, 16, 16, 16)),
    ],
)
def test_forwards_that_are_held_at_once(name: str, held: tuple[int, ...]) -> None:
    plan = FIXED[name](4, 8)
    assert replay(plan, times(1, 2, chunks=plan.chunks)).held() == held


def test_transfers_lengthen_the_way_through_the_pipeline() -> None:
    slow = replay(orders.gpipe(4, 6), times(1, 2), lambda first, then: 0.5)
    assert slow.span_s == pytest.approx((6 + 3) * 3 + 2 * 3 * 0.5)


def test_breadth_first_keeps_to_the_memory_that_there_is() -> None:
    took = times(1, 2, chunks=2)
    limit = (6, 6, 6, 6)

    def within(most: tuple[int, ...]) -> Replayed:
        plan = greedy.breadth_first_within(4, 8, 2, took, lambda first, then: 0.0, most)
        return replay(plan, took)

    tight, wide = within(limit), within((16,) * 4)
    assert all(held <= most for held, most in zip(tight.held(), limit, strict=True))
    assert wide.span_s <= tight.span_s
    assert wide.span_s == pytest.approx(28.5)


def test_memory_for_less_than_a_way_through_is_refused() -> None:
    took = times(1, 2, chunks=2)
    with pytest.raises(ValueError, match="not one micro-batch"):
        greedy.breadth_first_within(4, 8, 2, took, lambda first, then: 0.0, (1, 1, 1, 1))


def test_devices_that_wait_for_each_other_are_refused() -> None:
    plan = Plan(((Op(BACKWARD, 0, 0), Op(FORWARD, 0, 0)),), (0,))
    with pytest.raises(ValueError, match="wait for each other"):
        replay(plan, times(1, 2))


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (lambda: orders.interleaved(4, 6, 2), "multiple of 4 micro-batches"),
        (lambda: orders.interleaved_zero_bubble(4, 6, 2), "multiple of 4 micro-batches"),
        (lambda: orders.dualpipe_v(4, 6), "at least 8 micro-batches"),
    ],
)
def test_micro_batches_that_a_schedule_cannot_take(make: Callable[[], Plan], why: str) -> None:
    with pytest.raises(ValueError, match=why):
        make()


@pytest.mark.parametrize("p", [2, 3, 4, 8])
@pytest.mark.parametrize("more", [0, 1, 7])
def test_zero_bubble_h2_leaves_no_gap_from_step_to_step(p: int, more: int) -> None:
    """arXiv 2401.10241: no bubble, and activations of 2p - 1 micro-batches on each device."""
    m = 2 * p - 1 + more
    plan = orders.zero_bubble_h2(p, m)
    assert period_s(plan, times(1, 1, 1)) == pytest.approx(3 * m)
    assert replay(plan, times(1, 1, 1)).held() == (2 * p - 1,) * p
    with pytest.raises(ValueError, match=f"at least {2 * p - 1} micro-batches"):
        orders.zero_bubble_h2(p, 2 * p - 2)


@pytest.mark.parametrize(("p", "m"), [(2, 4), (4, 8)])
def test_steps_of_1f1b_do_not_overlap(p: int, m: int) -> None:
    plan = orders.one_f_one_b(p, m)
    assert period_s(plan, times(1, 2)) == pytest.approx(replay(plan, times(1, 2)).span_s)
