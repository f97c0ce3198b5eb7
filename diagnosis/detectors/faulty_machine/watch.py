"""The state of the detector: seconds of samples in, alarms out; the same by second as at once.

For each machine and metric a sum (CUSUM) takes what a deviation has beyond two sigmas and is zero
again once the deviation is gone. A machine is named where sums stand out (heights.py), have done so
for a while without a break (a hiccup of a minute is none), and no other machine does so, too. Where
many begin at once, the cause is one that they share: nobody is named.

Shapes: M metrics; R rows: M, then absence and all together; N machines; 2 directions: up, down.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from diagnosis.detectors.faulty_machine.heights import FALSE_PER_1000_HOURS, Heights, holm
from diagnosis.detectors.faulty_machine.pauses import Pauses
from diagnosis.detectors.faulty_machine.residuals import BIN, residuals_of
from diagnosis.detectors.faulty_machine.scales import (
    LEAST_ABSENT,
    Scales,
    least_sigmas,
)
from diagnosis.detectors.faulty_machine.series import Singles, groups_of
from diagnosis.detectors.faulty_machine.together import WINDOW_S, Together

Bools = npt.NDArray[np.bool_]

ABSENT, TOGETHER = "samples missing", "all metrics together"
"""Names of the two rows that are no metric."""

WARM_UP_S = 120.0
"""In which a job shows what is usual; nobody is named before."""

LASTS_STOPPED_S = 51.0
LASTS_MANY_S, AGREEING = 57.0, 5
LASTS_S, LASTS_PAUSED_S = 66.0, 120.0
WEAK, STRONG = 3.0, 4.0
"""How long a machine must deviate. Machines in order have hiccups of up to a minute: LASTS_S is
longer. In AGREEING metrics at once LASTS_MANY_S is enough. Least is asked where the whole job slows
down or stops just then, for nobody waits for a hiccup of a sensor, and the machine does less than
before and than the others, by STRONG sigmas. Most is asked of what is WEAK, which may be wander,
and while the job pauses of what rises: that may be a checkpoint that this machine writes.
"""

_STOPS_S = (-12.0, 9.0)
"""When the job stops, after a machine that it stops with began to deviate."""

_LESS_IN_PAUSES = 0.1
"""How fast the usual level follows then: a checkpoint is not usual."""

_CAME_FIRST_S = 6.0
"""A machine that deviates so long before the job pauses does not deviate for the pause."""

MORE_WORK, MORE_WORK_SHARE, MORE_WORK_S = 1.25, 0.3, 60.0
"""A job that does so much more, in a share of the metrics, for so long was not at work before: what
is usual is measured again."""

SLACK, MOST_SIGMAS = 2.0, 8.0
"""What a sum takes of a deviation, in sigmas: what is beyond the first, up to the second."""

MANY, MOST_AT_ONCE, AT_ONCE_S = 0.1, 2, 60.0
"""Share and number of the machines that may begin to deviate within AT_ONCE_S, one in any case:
more are no single faults."""

CLEARLY = 1.6
"""Of several that deviate at once one is named if its sums are so many times the next one's."""

_BLOCK_S = 30.0
_BEGUN = 5.0
"""A deviation lasts since its sum passed this: a smaller one is noise that comes and goes."""
_CALM_S = 15.0
"""A deviation that has paused for this long is over."""
_OVER_S, _EARLY_S = 60.0, 24.0
"""A deviation that has been gone for the first is over; one that begins within the second, when the
watch begins to judge, may have been there before, and names nobody."""
_WORKS, _FEWEST_AT_WORK = 0.8, 10
"""Of what the job does at most; and bins that are enough to measure what is usual."""
_SUSPECT = 0.5
"""Share of the limit from which on a machine's samples do not count as healthy."""


@dataclass(frozen=True)
class Deviation:
    """One metric of a machine that stands out. `sigmas`: mean deviation, signed."""

    metric: str
    sigmas: float
    p: float
    since_s: int


@dataclass
class Alarm:
    """Times in seconds since the first sample. `end_s`: None while it lasts. `others`: machines
    that deviate at the same time and are not named.
    """

    machine: str
    begin_s: int
    alarm_s: int
    deviations: tuple[Deviation, ...]
    others: tuple[str, ...] = ()
    end_s: int | None = None


@dataclass(frozen=True)
class Many:
    """Several machines that began to deviate at once; nobody is named."""

    machines: tuple[str, ...]
    begin_s: int


@dataclass
class MachineWatch:
    """Watches the machines of one attempt. `roles`: one per machine; equal ones are compared."""

    machines: Sequence[str]
    metrics: Sequence[str]
    roles: Sequence[object] = ()
    period_s: int = 1
    alarms: list[Alarm] = field(default_factory=list)
    many: list[Many] = field(default_factory=list)
    _pending: list[Singles] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._bin_s = BIN * self.period_s
        self._rows = (*self.metrics, ABSENT, TOGETHER)
        self._num = len(self.machines)
        self._groups = groups_of(self.roles or [None] * self._num)
        self._bins = 0
        self._started = False
        self._recent: deque[tuple[Singles, Singles]] = deque(maxlen=self._warm_bins)
        self._heights = Heights(len(self._rows), _BLOCK_S)

    @property
    def is_warm(self) -> bool:
        """Whether what is usual is known, so that machines are judged."""
        return self._started

    def push(self, values_MTN: Singles) -> None:
        """Take one or more seconds (periods) of samples, NaN where there is none."""
        self._pending.append(np.asarray(values_MTN, np.float32))
        num = sum(part.shape[1] for part in self._pending)
        least = BIN if self._started else BIN * self._warm_bins
        if num < least:
            return
        joined_MTN = (
            self._pending[0] if len(self._pending) == 1 else np.concatenate(self._pending, 1)
        )
        whole = num // BIN * BIN
        self._pending = [joined_MTN[:, whole:]] if whole < num else []
        if not self._started:
            warm = least if self._num else 0
            self._start(joined_MTN[:, :warm])
            joined_MTN, whole = joined_MTN[:, warm:], whole - warm
        if whole:
            self._advance(joined_MTN[:, :whole])

    @property
    def _warm_bins(self) -> int:
        return max(math.ceil(WARM_UP_S / self._bin_s), 2 * self._window)

    @property
    def _window(self) -> int:
        return max(round(WINDOW_S / self._bin_s), 2)

    def _residuals(self, values_MTN: Singles) -> tuple[Singles, Singles]:
        """Residuals and levels of metrics and absence, [M + 1, B, N]."""
        parts = residuals_of(values_MTN, self._groups, self._usual_MN)
        common_B1 = np.median(parts.absent_BN, axis=1, keepdims=True)
        absent_1BN = (parts.absent_BN - common_B1)[None]
        own = np.concatenate([parts.own_MBN, absent_1BN])
        level = np.concatenate([parts.level_MBN, np.zeros_like(absent_1BN)])
        return own, level

    def _start(self, values_MTN: Singles) -> None:
        """Measure what is usual."""
        self._usual_MN = np.isfinite(values_MTN).mean(axis=1) > 0.3
        own_QBN, level_QBN = self._residuals(values_MTN)
        self._measure(own_QBN, level_QBN)
        self._bins += own_QBN.shape[1]
        self._clear()
        for at in range(own_QBN.shape[1]):
            self._see_pause(level_QBN[:, at], self._bins - own_QBN.shape[1] + at + 1)
        self._started = True

    def _measure(self, own_QBN: Singles, level_QBN: Singles) -> None:
        """What is usual, of the bins in which the job is at work."""
        at_work_B = _at_work(level_QBN)
        own_QBN, level_QBN = own_QBN[:, at_work_B], level_QBN[:, at_work_B]
        least_Q = np.append(least_sigmas(self.metrics), np.float32(LEAST_ABSENT))
        self._scales = Scales.of(own_QBN, level_QBN, least_Q)
        num_metrics = len(self.metrics)
        self._together = Together(num_metrics, self._num, self._window)
        everyone_N = np.ones(self._num, np.bool_)
        for _ in range(2):  # once for the components, once for what is left
            rests = []
            for at in range(own_QBN.shape[1]):
                deviation_QN = self._scales.deviations(
                    own_QBN[:, at], level_QBN[:, at], self._groups
                )
                rests.append(self._together.push(_clipped(deviation_QN)[:num_metrics]))
                if at % self._window == self._window - 1:
                    self._together.learn(everyone_N)
        rest_BN = np.array(rests)
        rest_BN -= np.median(rest_BN, axis=1, keepdims=True)
        least_1 = np.array([0.25], np.float32)
        self._rest = Scales.of(rest_BN[None], np.zeros_like(rest_BN)[None], least_1)

    def _clear(self) -> None:
        """No deviation yet."""
        num_rows = len(self._rows)
        self._sum_2RN = np.zeros((2, num_rows, self._num), np.float32)
        self._begun_2RN = np.full((2, num_rows, self._num), self._bins, np.int32)
        self._calm_2RN = np.zeros((2, num_rows, self._num), np.int16)
        self._total_2RN = np.zeros((2, num_rows, self._num), np.float32)
        self._highest_RN = np.zeros((num_rows, self._num), np.float32)
        self._waiting: list[Singles] = []
        self._block: list[Singles] = []
        self._open: dict[int, Alarm] = {}
        self._last_out_N = np.full(self._num, -1, np.int64)
        self._reported_many: set[int] = set()
        self._pauses = Pauses(self._bin_s)
        self._more_bins = 0
        self._judged_since = self._bins
        self._newest_2RN = np.zeros_like(self._sum_2RN)
        self._changed_2QN = np.zeros((2, num_rows - 1, self._num), np.bool_)

    def _advance(self, values_MTN: Singles) -> None:
        own_QBN, level_QBN = self._residuals(values_MTN)
        for at in range(own_QBN.shape[1]):
            self._bin(own_QBN[:, at], level_QBN[:, at])
            self._recent.append((own_QBN[:, at], level_QBN[:, at]))
            is_calm = not self._open and not self._strengths().any()
            if self._more_bins * self._bin_s >= MORE_WORK_S and is_calm:
                own, level = zip(*self._recent, strict=True)
                self._measure(np.stack(own, axis=1), np.stack(level, axis=1))
                self._clear()

    def _bin(self, own_QN: Singles, level_QN: Singles) -> None:
        """One bin of time."""
        self._bins += 1
        num_metrics = len(self.metrics)
        deviation_QN = _clipped(self._scales.deviations(own_QN, level_QN, self._groups))
        rest_N = self._together.push(deviation_QN[:num_metrics])
        rest_N -= np.median(rest_N)
        none_1N = np.zeros((1, self._num), np.float32)
        rest_1N = _clipped(self._rest.deviations(rest_N[None], none_1N, self._groups))
        self._add(np.concatenate([deviation_QN, rest_1N]))
        self._see_pause(level_QN, self._bins)
        self._see_work(level_QN)
        self._changed_2QN = self._scales.has_changed(own_QN, level_QN)
        slower = _LESS_IN_PAUSES if self._pauses.since >= 0 else 1.0
        self._scales.follow_level(level_QN, self._bin_s * slower)
        self._block.append(np.concatenate([own_QN, rest_N[None]]))
        np.maximum(self._highest_RN, self._sum_2RN.max(axis=0), out=self._highest_RN)
        self._judge()
        if len(self._block) * self._bin_s >= _BLOCK_S:
            self._end_block()

    def _add(self, deviation_RN: Singles) -> None:
        """One more deviation into the sums of both directions."""
        signed_2RN = np.stack([deviation_RN, -deviation_RN])
        signed_2RN[1, -2:] = 0.0  # fewer missing samples, a smaller rest: no fault
        known_2RN = ~np.isnan(signed_2RN)
        self._newest_2RN = np.nan_to_num(signed_2RN)
        more_2RN = np.where(known_2RN, signed_2RN - SLACK, 0.0)
        is_calm_2RN = known_2RN & (more_2RN <= 0)
        self._calm_2RN = np.where(is_calm_2RN, self._calm_2RN + 1, self._calm_2RN * ~known_2RN)
        self._sum_2RN = np.maximum(self._sum_2RN + more_2RN, 0.0)
        self._sum_2RN[self._calm_2RN * self._bin_s >= _CALM_S] = 0.0
        begins_2RN = self._sum_2RN < _BEGUN
        self._begun_2RN[begins_2RN] = self._bins
        self._total_2RN = np.where(begins_2RN, 0.0, self._total_2RN + np.nan_to_num(signed_2RN))

    def _judge(self) -> None:
        high_2RN = self._sum_2RN >= self._heights.limit_R[:, None]
        if not high_2RN.any() and not self._open:
            return
        self._last_out_N[high_2RN.any(axis=(0, 1))] = self._bins
        self._close()
        for machine in np.flatnonzero(self._ready(high_2RN)).tolist():
            if machine not in self._open:
                self._decide(machine)

    def _ready(self, high_2RN: Bools) -> Bools:
        """Machines that have deviated for long enough, and still do."""
        lasted_2RN = (self._bins - self._begun_2RN) * self._bin_s
        usual_2RN = self._total_2RN / np.maximum(self._bins - self._begun_2RN, 1)
        still_2RN = high_2RN & (self._newest_2RN >= usual_2RN / 2)
        still_2RN &= (self._begun_2RN - self._judged_since) * self._bin_s > _EARLY_S
        still_2RN[:, :-1] &= self._changed_2QN
        is_paused = self._pauses.since >= 0
        first_s = (self._pauses.since - self._begun_2RN) * self._bin_s
        came_first_2RN = is_paused & (first_s >= _CAME_FIRST_S)
        in_pause_2RN = (self._pauses.until >= self._begun_2RN) & (self._pauses.until >= 0)
        in_pause_2RN &= ~came_first_2RN
        in_pause_2RN[1, :-1][self._changed_2QN[1]] = False
        needed_2RN = np.where(in_pause_2RN | (usual_2RN < WEAK), LASTS_PAUSED_S, LASTS_S)
        needed_2RN[:, -1] += WINDOW_S  # a window still holds what is over
        alone_N = (still_2RN & (lasted_2RN >= needed_2RN)).any(axis=(0, 1))
        own_2RN, lasted_2RN = still_2RN[:, :-1], lasted_2RN[:, :-1]
        many_N = _number(own_2RN & (lasted_2RN >= LASTS_MANY_S)) >= AGREEING
        stops_s = (self._pauses.since - self._begun_2RN[:, :-1]) * self._bin_s
        stops_QN = (stops_s[1] >= _STOPS_S[0]) & (stops_s[1] <= _STOPS_S[1])
        stops_QN &= own_2RN[1] & (lasted_2RN[1] >= LASTS_STOPPED_S) & is_paused
        stops_QN &= usual_2RN[1, :-1] >= STRONG
        ready_N: Bools = alone_N | many_N | stops_QN.any(axis=0)
        return ready_N

    def _see_pause(self, level_QN: Singles, at: int) -> None:
        first_G = [members[0] for members in self._groups]
        self._pauses.push(level_QN[:, first_G], at)

    def _see_work(self, level_QN: Singles) -> None:
        """Whether the job does more than when what is usual was measured."""
        usual_QN = self._scales.level_RN
        more_QN = (level_QN > MORE_WORK * usual_QN) & (usual_QN > self._scales.level_noise_RN)
        works_more = float(more_QN.any(axis=1).mean()) >= MORE_WORK_SHARE
        self._more_bins = self._more_bins + 1 if works_more else 0

    def _close(self) -> None:
        for machine, alarm in list(self._open.items()):
            quiet = (self._bins - self._last_out_N[machine]) * self._bin_s
            if quiet >= _OVER_S:
                alarm.end_s = int(self._last_out_N[machine]) * self._bin_s
                del self._open[machine]

    def _decide(self, machine: int) -> None:
        """Name a machine that is ready, or say that it is one of many."""
        begin_N, strength_N = self._begins(), self._strengths()
        near_N = (strength_N > 0) & (np.abs(begin_N - begin_N[machine]) * self._bin_s <= AT_ONCE_S)
        near_N[list(self._open)] = False
        near_N[machine] = True
        if self._open and self._pauses.since >= 0:
            named = max(float(strength_N[other]) for other in self._open)
            if float(strength_N[machine]) < CLEARLY * named:
                return  # the job waits for one that is named: what others do now follows from that
        others = [int(other) for other in np.flatnonzero(near_N) if other != machine]
        next_best = max((float(strength_N[other]) for other in others), default=0.0)
        if float(strength_N[machine]) < CLEARLY * next_best:
            is_many = bool(others) and len(others) + 1 > min(MANY * self._num, MOST_AT_ONCE)
            if machine not in self._reported_many and is_many:
                members = sorted([machine, *others])
                self._reported_many |= set(members)
                names = tuple(self.machines[index] for index in members)
                self.many.append(Many(names, int(begin_N[machine]) * self._bin_s))
            if is_many:
                return
        alarm = Alarm(
            self.machines[machine],
            int(begin_N[machine]) * self._bin_s,
            self._bins * self._bin_s,
            self._deviations(machine),
            tuple(self.machines[other] for other in others),
        )
        self._open[machine] = alarm
        self.alarms.append(alarm)

    def _begins(self) -> npt.NDArray[np.int64]:
        """Bin since which each machine stands out; the newest where it does not."""
        high_2RN = self._sum_2RN >= self._heights.limit_R[:, None]
        begins_N = np.where(high_2RN, self._begun_2RN, self._bins).min(axis=(0, 1))
        return np.asarray(begins_N, np.int64)

    def _strengths(self) -> npt.NDArray[np.float64]:
        """By machine: its sums that stand out, in limits."""
        limit_R1 = self._heights.limit_R[:, None]
        high_2RN = self._sum_2RN >= limit_R1
        share_2RN = np.where(high_2RN, self._sum_2RN / limit_R1, 0.0)
        return np.asarray(share_2RN.sum(axis=(0, 1)), np.float64)

    def _deviations(self, machine: int) -> tuple[Deviation, ...]:
        """What stands out of this machine by Holm's test, strongest first."""
        sum_RN = self._sum_2RN.max(axis=0)
        p_RN = self._heights.p_of(sum_RN)
        level = FALSE_PER_1000_HOURS / 1_000 * self._num * _BLOCK_S / 3_600
        is_out_R = holm(p_RN, level)[:, machine] | (sum_RN[:, machine] >= self._heights.limit_R)
        found = []
        for row in np.flatnonzero(is_out_R).tolist():
            way = int(self._sum_2RN[:, row, machine].argmax())
            num = max(self._bins - int(self._begun_2RN[way, row, machine]), 1)
            sigmas = float(self._total_2RN[way, row, machine]) / num * (1 - 2 * way)
            since_s = int(self._begun_2RN[way, row, machine]) * self._bin_s
            found.append(Deviation(self._rows[row], sigmas, float(p_RN[row, machine]), since_s))
        return tuple(sorted(found, key=lambda each: -abs(each.sigmas)))

    def _end_block(self) -> None:
        """Learn from the machines that nothing is suspected of."""
        limit_R1 = self._heights.limit_R[:, None]
        is_calm_RN = self._sum_2RN.max(axis=0) < _SUSPECT * limit_R1
        own_RBN = np.array(self._block).transpose(1, 0, 2)
        self._scales.follow_machines(own_RBN[:-1], is_calm_RN[:-1])
        self._rest.follow_machines(own_RBN[-1:], is_calm_RN[-1:])
        is_calm_N = is_calm_RN.all(axis=0)
        self._together.learn(is_calm_N)
        self._waiting.append(self._highest_RN.copy())
        if len(self._waiting) > 3:
            healthy_N = np.ones(self._num, np.bool_)
            healthy_N[list(self._open)] = False
            healthy_N &= ~((self._sum_2RN >= limit_R1).any(axis=(0, 1)))
            self._heights.add(self._waiting.pop(0), healthy_N)
        self._highest_RN[...] = 0.0
        self._block = []


def _at_work(level_QBN: Singles) -> Bools:
    """Bins in which the job does most: a first stretch may hold a pause."""
    level_QB = np.nan_to_num(np.abs(level_QBN).max(axis=2))
    most_Q1 = level_QB.max(axis=1, keepdims=True)
    share_B = (level_QB / np.where(most_Q1 > 0, most_Q1, 1.0))[most_Q1[:, 0] > 0].mean(axis=0)
    at_work_B: Bools = share_B >= _WORKS * np.quantile(share_B, 0.95)
    return at_work_B if at_work_B.sum() >= _FEWEST_AT_WORK else np.ones(share_B.size, np.bool_)


def _number(is_out_2RN: Bools) -> npt.NDArray[np.int64]:
    """Rows by machine, in either direction."""
    return np.asarray(is_out_2RN.any(axis=0).sum(axis=0), np.int64)


def _clipped(deviation_RN: Singles) -> Singles:
    clipped: Singles = np.clip(deviation_RN, -MOST_SIGMAS, MOST_SIGMAS)
    return clipped
