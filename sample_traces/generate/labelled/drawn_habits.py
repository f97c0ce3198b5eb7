"""Habits of a job, drawn at random from the ranges of its world."""

from __future__ import annotations

from sample_traces.generate.habits import Habits
from sample_traces.generate.labelled.draws import Random, even, log_even, one_of
from sample_traces.generate.labelled.worlds import HabitRanges, Range


def draw_habits(random: Random, ranges: HabitRanges, num_ranks: int, num_steps: int) -> Habits:
    """The habits of one job."""

    def maybe(likely: float, of: Range) -> float:
        return even(random, of) if random.random() < likely else 0.0

    periodic = random.random() < ranges.periodic
    roles = (1.0,)
    if random.random() < ranges.roles:
        roles = tuple(even(random, ranges.role) for _ in range(int(random.choice([2, 4]))))
    return Habits(
        noise=log_even(random, ranges.noise),
        swing=even(random, ranges.swing),
        memory=log_even(random, ranges.memory),
        common=even(random, ranges.common),
        device=even(random, ranges.device),
        data_noise=even(random, ranges.data_noise),
        spikes=even(random, ranges.spikes),
        spike=even(random, ranges.spike),
        spike_phase=one_of(random, ranges.spikes_in),
        swing_phase=one_of(random, ranges.swing_in),
        quirk=maybe(ranges.quirks, ranges.quirk),
        quirk_phase=one_of(random, ("rest", "data")),
        roles=roles,
        warm_up=maybe(ranges.warm_ups, ranges.warm_up),
        settles=log_even(random, ranges.settles),
        trend=even(random, ranges.trend),
        every=int(even(random, ranges.every)) if periodic else 0,
        unnamed=even(random, ranges.unnamed),
        unnamed_phase=one_of(random, ranges.unnamed_in),
        slow=_slow(random, ranges, num_steps),
        stalls=_stalls(random, ranges, num_ranks, num_steps),
        stall_phase=one_of(random, ranges.stalls_in),
    )


Slow = tuple[tuple[int, int, float], ...]
Stalls = tuple[tuple[int, int, int, float], ...]


def _slow(random: Random, ranges: HabitRanges, num_steps: int) -> Slow:
    """Steps in which the whole job is slower and nobody is the reason."""
    if random.random() >= ranges.slow:
        return ()
    length = min(int(even(random, ranges.slow_steps)), num_steps // 2)
    first = int(random.integers(10, num_steps - length))
    return ((first, first + length - 1, even(random, ranges.slow_by)),)


def _stalls(random: Random, ranges: HabitRanges, num_ranks: int, num_steps: int) -> Stalls:
    """For a while one rank stalls in every second step, then another."""
    found = []
    first = int(random.integers(5, 60))
    while first < num_steps and random.random() < ranges.stalls:
        last = min(first + int(even(random, ranges.stall_steps)), num_steps - 1)
        found.append((first, last, int(random.integers(num_ranks)), even(random, ranges.stall_by)))
        first = last + int(random.integers(1, 40))
    return tuple(found)
