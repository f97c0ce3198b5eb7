"""Clocks from ends of collectives: made jobs whose clocks are known."""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np
import pytest

from diagnosis.clocks.alignment import LARGEST_ERR_NS, Alignment, MatchedEnds, align

T0 = 1_700_000_000_000_000_000
US, MS, S = 1_000, 1_000_000, 1_000_000_000
DP_TP = [[0, 1, 2, 3], [4, 5, 6, 7], [0, 4], [1, 5], [2, 6], [3, 7]]
"""tp 4 x dp 2."""


class Job:
    """Groups that end a collective together every step; ends on clocks that are off by known times.

    shown = true - offset - drift x (true - T0), so that offset is what brings it back at T0.
    """

    def __init__(
        self,
        groups: list[list[int]],
        offset_ns: dict[int, float] | None = None,
        drift: dict[int, float] | None = None,
        num_steps: int = 50,
        step_s: float = 0.1,
        noise_ns: float = 5 * US,
        seed: int = 1,
    ) -> None:
        random = np.random.default_rng(seed)
        self.offset_ns, self.drift = offset_ns or {}, drift or {}
        columns: list[tuple[int, int, int, int, int, int]] = []
        for step in range(num_steps):
            for group, ranks in enumerate(groups):
                end_ns = (step + (group + 1) / (len(groups) + 1)) * step_s * S
                end_ns += random.uniform(0, 1 * MS)
                for rank in ranks:
                    true_ns = end_ns + random.normal(0, noise_ns)
                    instance = step * len(groups) + group
                    columns.append((group, instance, rank, self.shown(rank, true_ns), MS, 0))
        self.ends = MatchedEnds(*np.array(columns).T)
        self.ranks = sorted({rank for ranks in groups for rank in ranks})

    def shown(self, rank: int, true_ns: float) -> int:
        ahead_ns = self.offset_ns.get(rank, 0.0) + self.drift.get(rank, 0.0) * true_ns
        return T0 + round(true_ns - ahead_ns)

    def align(self) -> Alignment:
        return align(self.ends, self.ranks)

    def errors(self, alignment: Alignment) -> dict[int, tuple[float, int]]:
        """(greatest error of aligned times over the trace, stated error) of each aligned rank."""
        errors = {}
        last_ns = float(self.ends.end_ns_N.max() - T0)
        for rank, clock in alignment.clocks.items():
            at = []
            for true_ns in (0.0, last_ns / 2, last_ns):
                shown_ns = self.shown(rank, true_ns)
                drifted = clock.drift_ppb * 1e-9 * (shown_ns - clock.ts_ns)
                base_ns = self.shown(alignment.reference or 0, true_ns)
                at.append(abs(shown_ns + clock.offset_ns + drifted - base_ns))
            errors[rank] = max(at), clock.err_ns
        return errors

    def changed(self, chosen: np.ndarray, by_ns: np.ndarray | int) -> Job:
        end_ns_N = self.ends.end_ns_N + np.where(chosen, by_ns, 0)
        self.ends = replace(self.ends, end_ns_N=end_ns_N)
        return self


def within(errors: dict[int, tuple[float, int]], most_ns: float) -> bool:
    return all(error <= stated <= most_ns for error, stated in errors.values())


@pytest.mark.parametrize("seed", range(5))
def test_offsets_come_out_within_the_stated_error(seed: int) -> None:
    job = Job(DP_TP, {3: -90 * MS, 6: 12 * MS, 7: 400 * US}, seed=seed)
    alignment = job.align()
    assert (alignment.reference, alignment.unaligned, alignment.misfits) == (0, [], [])
    assert within(job.errors(alignment), 60 * US)
    assert alignment.clocks[0].offset_ns == alignment.clocks[0].err_ns == 0
    assert alignment.clocks[3].offset_ns == pytest.approx(-90 * MS, abs=alignment.clocks[3].err_ns)
    assert 2 * US < alignment.clocks[5].residual_ns < 10 * US


@pytest.mark.parametrize("seed", range(5))
def test_drift_of_a_long_trace_comes_out_within_the_stated_error(seed: int) -> None:
    offset_ns = {1: 90.0 * MS, 2: -3.0 * MS}
    job = Job(DP_TP, offset_ns, {5: 50e-6}, num_steps=600, step_s=1.0, seed=seed)
    alignment = job.align()
    clock = alignment.clocks[5]
    assert clock.drift_err_ppb is not None
    assert pytest.approx(clock.drift_ppb, abs=clock.drift_err_ppb + 3) == 50_000  # shown / true
    assert clock.drift_err_ppb < 1000
    others = [other for rank, other in alignment.clocks.items() if rank not in (0, 5)]
    assert all(abs(other.drift_ppb) <= (other.drift_err_ppb or 0) for other in others)
    assert within(job.errors(alignment), 200 * US)


def test_a_short_trace_has_no_drift() -> None:
    job = Job(DP_TP, {3: -90 * MS}, num_steps=8, step_s=0.002)
    alignment = job.align()
    assert {clock.drift_ppb for clock in alignment.clocks.values()} == {0}
    assert {alignment.clocks[rank].drift_err_ppb for rank in range(1, 8)} == {None}
    assert within(job.errors(alignment), 100 * US)


def test_one_instance_states_what_it_cannot_see() -> None:
    alignment = Job([[0, 1]], num_steps=1).align()
    assert alignment.clocks[1].err_ns >= MS  # as long as it took


def test_some_ends_far_off_change_nothing() -> None:
    job = Job(DP_TP, {3: -90 * MS})
    random = np.random.default_rng(3)
    off = random.random(len(job.ends.end_ns_N)) < 0.05
    alignment = job.changed(off, random.integers(1 * MS, 300 * MS, len(off))).align()
    assert alignment.unaligned == []
    assert within(job.errors(alignment), 100 * US)


def test_ranks_without_a_path_of_groups_are_unaligned() -> None:
    alignment = Job([[0, 1], [1, 2], [4, 5]]).align()
    assert (alignment.reference, sorted(alignment.clocks), alignment.unaligned) == (
        0,
        [0, 1, 2],
        [4, 5],
    )
    nothing = MatchedEnds(*np.empty((6, 0), np.int64))
    alignment = align(nothing, [3, 77])
    assert (alignment.reference, alignment.clocks, alignment.unaligned) == (None, {}, [3, 77])


def test_the_reference_is_the_lowest_rank_of_the_largest_part() -> None:
    alignment = Job([[0, 1], [5, 3], [3, 9]], {5: 4 * MS}).align()
    assert (alignment.reference, alignment.unaligned) == (3, [0, 1])
    assert alignment.clocks[5].offset_ns == pytest.approx(4 * MS, abs=alignment.clocks[5].err_ns)


def test_instances_that_lack_a_member_are_not_used() -> None:
    job = Job(DP_TP)
    whole = (job.ends.rank_N != 7) | (job.ends.instance_N // len(DP_TP) % 2 == 0)
    job.ends = MatchedEnds(*(column[whole] for column in vars(job.ends).values()))
    assert job.align().unaligned == []


def test_a_member_numbered_differently_is_left_out_and_the_others_stay() -> None:
    """As in a profile that began one collective later: each end belongs to another instance."""
    job = Job([[0, 1, 2, 3]], {2: 7 * MS})
    random = np.random.default_rng(5)
    by_ns = random.integers(-80 * MS, 80 * MS, len(job.ends.rank_N))
    alignment = job.changed(job.ends.rank_N == 3, by_ns).align()
    assert (sorted(alignment.clocks), alignment.unaligned) == ([0, 1, 2], [3])
    assert [(m.group, m.rank) for m in alignment.misfits] == [(0, 3)]
    assert alignment.misfits[0].residual_ns > LARGEST_ERR_NS / 2
    assert within(job.errors(alignment), 60 * US)


def without(job: Job, *missing: int) -> Job:
    """The job without the files of some ranks."""
    gone = np.isin(job.ends.rank_N, missing)
    lacking = np.bincount(job.ends.instance_N[gone], minlength=job.ends.instance_N.max() + 1)
    columns = vars(job.ends) | {"num_missing_N": lacking[job.ends.instance_N]}
    job.ends = MatchedEnds(**{name: column[~gone] for name, column in columns.items()})
    job.ranks = [rank for rank in job.ranks if rank not in missing]
    return job


def shifted(job: Job, rank: int, by: int, period_ns: int) -> Job:
    """A rank's ends as those of later instances."""
    later = np.roll(job.ends.end_ns_N[job.ends.rank_N == rank], -by)
    later[-by:] += len(later) * period_ns
    end_ns_N = job.ends.end_ns_N.copy()
    end_ns_N[job.ends.rank_N == rank] = later
    job.ends = replace(job.ends, end_ns_N=end_ns_N)
    return job


@pytest.mark.parametrize("seed", range(5))
def test_missing_members_cost_the_others_nothing(seed: int) -> None:
    job = without(Job([list(range(8))], {3: -90 * MS, 6: 12 * MS}, seed=seed), 2)
    alignment = job.align()
    assert (sorted(alignment.clocks), alignment.unaligned) == ([0, 1, 3, 4, 5, 6, 7], [])
    assert (alignment.incomplete, alignment.unproven, alignment.misfits) == ([0], [], [])
    assert within(job.errors(alignment), 60 * US)


@pytest.mark.parametrize("by", [1, 7])
@pytest.mark.parametrize("missing", [(), (2,)])
def test_a_member_whose_numbers_are_shifted_is_left_out(missing: tuple[int, ...], by: int) -> None:
    """Collectives come every 100 ms, give or take one: ends scatter little, whatever they mean."""
    job = shifted(without(Job([list(range(8))]), *missing), 5, by, 100 * MS)
    alignment = job.align()
    assert [(misfit.group, misfit.rank) for misfit in alignment.misfits] == [(0, 5)]
    assert alignment.unaligned == [5]
    assert within(job.errors(alignment), 60 * US)


def test_ends_of_some_that_come_like_clockwork_prove_nothing() -> None:
    job = without(Job([list(range(8))]), 2)
    regular_ns = T0 + job.ends.instance_N * 100 * MS
    alignment = job.changed(job.ends.rank_N >= 0, regular_ns - job.ends.end_ns_N).align()
    assert (alignment.clocks, alignment.incomplete, alignment.unproven) == ({}, [], [0])


def test_a_few_instances_of_some_prove_nothing() -> None:
    alignment = without(Job([list(range(8))], num_steps=10), 2).align()
    assert (alignment.clocks, alignment.unproven) == ({}, [0])


def test_instances_that_only_some_recorded_add_to_those_of_all() -> None:
    """A member whose ring is short: the clocks of the others are known as well as without it."""
    job = Job([[0, 1, 2, 3]], {1: 3 * MS})
    short = (job.ends.rank_N == 3) & (job.ends.instance_N < 40)
    lacking = np.isin(job.ends.instance_N, job.ends.instance_N[short]).astype(np.int64)
    columns = vars(job.ends) | {"num_missing_N": lacking}
    job.ends = MatchedEnds(**{name: column[~short] for name, column in columns.items()})
    alignment = job.align()
    assert (alignment.unaligned, alignment.incomplete) == ([], [0])
    assert within(job.errors(alignment), 60 * US)


def test_a_pair_that_does_not_fit_aligns_nobody() -> None:
    job = Job([[0, 1]])
    random = np.random.default_rng(5)
    by_ns = random.integers(-80 * MS, 80 * MS, len(job.ends.rank_N))
    alignment = job.changed(job.ends.rank_N == 1, by_ns).align()
    assert (alignment.reference, alignment.unaligned) == (None, [0, 1])
    assert [m.rank for m in alignment.misfits] == [0, 1]


def test_a_group_recorded_wrongly_is_detected_by_the_others() -> None:
    """Ranks 1 and 6 never talk to each other; as recorded they end 3 ms apart, always."""
    job = Job([*DP_TP, [1, 6]], {3: -90 * MS})
    wrong = (job.ends.group_N == 6) & (job.ends.rank_N == 6)
    alignment = job.changed(wrong, 3 * MS).align()
    assert {m.group for m in alignment.misfits} == {6}
    assert alignment.unaligned == []
    assert within(job.errors(alignment), 60 * US)


def test_where_groups_contradict_each_other_the_error_grows() -> None:
    """A loop of pairs does not close: which pair is wrong cannot be known."""
    job = Job([[0, 1], [1, 2], [2, 3], [0, 3]])
    alignment = job.changed((job.ends.group_N == 3) & (job.ends.rank_N == 3), 3 * MS).align()
    assert alignment.misfits == []
    assert all(error <= stated for error, stated in job.errors(alignment).values())
    assert alignment.clocks[3].err_ns > MS


def test_a_long_chain_of_pairs_is_solved_and_its_error_grows() -> None:
    num_ranks = 300
    offset_ns = {rank: float(rank * MS) for rank in range(num_ranks)}
    job = Job([[r, r + 1] for r in range(num_ranks - 1)], offset_ns, num_steps=20)
    alignment = job.align()
    assert alignment.unaligned == []
    errors = job.errors(alignment)
    assert all(error <= stated for error, stated in errors.values())
    assert errors[299][1] > 3 * errors[10][1]


def test_thousands_of_ranks_without_a_path_are_no_thousandfold_work() -> None:
    """One Dijkstra per part would take minutes."""
    job = Job([[r, r + 1] for r in range(0, 8000, 2)], num_steps=1)
    begun_s = time.process_time()
    alignment = job.align()
    assert time.process_time() - begun_s < 10
    assert (sorted(alignment.clocks), len(alignment.unaligned)) == ([0, 1], 7998)


def test_columns_of_different_lengths_are_refused() -> None:
    one = np.zeros(1, np.int64)
    with pytest.raises(ValueError, match="give each column for all ends"):
        MatchedEnds(one, one, one, one, one, np.zeros(2, np.int64))
