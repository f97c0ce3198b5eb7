"""Two windows of steps: which parts grew, and by how much MFU fell for it.

MFU is (time of the FLOPs at peak) / (time of a step), so a part that takes longer by d ms per step
costs MFU_before * d / step_after points, exactly: the parts add up to the change. Parts that
take as long as before count nothing, though their share of the step changes. Where the FLOPs of
steps vary, times are those for the work of a mean step before. Without FLOPs or peak
a part counts d / step_before: percent by which steps are longer.

Unusually long steps are kept apart: few of them would hide what all the others have in common. The
parts are those of usual steps, and what the long ones cost on top is a change of its own.

Shape suffixes: P parts, V values (parts of usual steps, then the surplus of long ones by part), S
steps, N draws.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from diagnosis.mfu.bootstrap import block_length, drawn_means
from diagnosis.mfu.parts import COMPUTE, NAMES, title_of
from diagnosis.mfu.step_times import StepTimes
from diagnosis.mfu.windows import is_long, points_of, points_per_ms, same_work, usual_and_surplus

Floats = npt.NDArray[np.float64]

ALL, LONG_STEPS = "all", "long_steps"
_TITLES = {ALL: "All parts", LONG_STEPS: "Unusually long steps"}
_WITHIN = (2.5, 97.5)
"""Percentiles of the interval: 95 %."""
_SEED = 20_402
FEWEST = 4
"""Steps of a window."""


@dataclass(frozen=True)
class Change:
    """By how much a part changed, in the unit of its comparison, and a 95 % interval; more is
    worse. `before_ms`, `after_ms`: per step, of kernels below peak what is beyond the peak.
    """

    name: str
    title: str
    points: float
    low: float
    high: float
    before_ms: float
    after_ms: float

    @property
    def grew(self) -> bool:
        """Whether it is more, beyond its noise."""
        return self.low > 0


@dataclass(frozen=True)
class Comparison:
    """Unit: points of MFU, or percent of the step time before where MFU is unknown (`mfu_before`
    None). MFU, step times and `lost`, which has all parts together, are of usual steps; `changes`,
    the greatest first, are of its parts and of unusually long steps. `long_by`: the part in which
    those are longer, above all; None where there are none. `part`: the change of one part over all
    steps, on the rank that has most of it, where it was asked for. `hides_waiting`: what ranks wait
    for each other may be inside other parts.
    """

    before: tuple[int, int]
    after: tuple[int, int]
    num_before: int
    num_after: int
    num_long_before: int
    num_long_after: int
    mfu_before: float | None
    mfu_after: float | None
    step_ms_before: float
    step_ms_after: float
    lost: Change
    changes: tuple[Change, ...]
    long_by: str | None
    part: Change | None
    hides_waiting: bool
    why_no_mfu: str

    @property
    def in_points(self) -> bool:
        """Whether the unit is points of MFU."""
        return self.mfu_before is not None

    def of(self, name: str) -> Change | None:
        """The change of a part; None where neither window has it."""
        return next((change for change in self.changes if change.name == name), None)


def compare(before: StepTimes, after: StepTimes, part: str | None = None) -> Comparison:
    """Raises ValueError where a window has too few steps."""
    for window in (before, after):
        if window.step_S.size < FEWEST:
            number = window.step_S.size
            steps = "1 finished step" if number == 1 else f"{number} finished steps"
            raise ValueError(f"a window has {steps}; choose at least {FEWEST}")
    why = before.why_no_mfu or after.why_no_mfu
    ideal_ms = None if why else float(before.ideal_ms_S.mean())
    drawn = _drawn(before, after, ideal_ms)
    usual_ms = [float(ms) for ms in drawn.mean_2V[:, : len(NAMES)].sum(axis=1)]
    mfus = [None if ideal_ms is None else ideal_ms / ms for ms in usual_ms]
    return Comparison(
        before=(int(before.step_S[0]), int(before.step_S[-1])),
        after=(int(after.step_S[0]), int(after.step_S[-1])),
        num_before=before.step_S.size,
        num_after=after.step_S.size,
        num_long_before=drawn.num_long[0],
        num_long_after=drawn.num_long[1],
        mfu_before=mfus[0],
        mfu_after=mfus[1],
        step_ms_before=usual_ms[0],
        step_ms_after=usual_ms[1],
        lost=drawn.change(ALL, slice(len(NAMES))),
        changes=_changes(drawn),
        long_by=drawn.long_by,
        part=None if part is None else _of_part(before, after, part, ideal_ms),
        hides_waiting=before.hides_waiting or after.hides_waiting,
        why_no_mfu=why,
    )


def is_loss(comparison: Comparison, of_long_steps: bool = False) -> bool:
    """Whether more is lost, beyond the noise: in what was compared."""
    if comparison.part is not None:
        return comparison.part.grew
    if of_long_steps:
        long = comparison.of(LONG_STEPS)
        return long is not None and long.grew
    return comparison.lost.grew


@dataclass(frozen=True)
class _Drawn:
    """Means of both windows, ms, as measured and of N draws, and how many steps are unusually long.
    `ideal_ms`: what the FLOPs of a step take at peak, None unknown.
    """

    mean_2V: Floats
    mean_2NV: Floats
    num_long: list[int]
    ideal_ms: float | None

    @cached_property
    def point_V(self) -> Floats:
        """Changes in points, the last one that of all unusually long steps."""
        point_V: Floats = points_of(self.mean_2V[:1], self.mean_2V[1:], self.ideal_ms)[0]
        return point_V

    @cached_property
    def point_NV(self) -> Floats:
        """The same of each draw."""
        return points_of(self.mean_2NV[0], self.mean_2NV[1], self.ideal_ms)

    def change(self, name: str, values: slice) -> Change:
        """Of some parts together."""
        low, high = np.percentile(self.point_NV[:, values].sum(axis=1), _WITHIN)
        own = slice(len(NAMES), None) if name == LONG_STEPS else values
        at_peak_ms = (self.ideal_ms or 0.0) if name == COMPUTE else 0.0
        before_ms, after_ms = (self.mean_2V[:, own].sum(axis=1) - at_peak_ms).tolist()
        title = _TITLES.get(name) or title_of(name, self.ideal_ms is not None)
        points = float(self.point_V[values].sum())
        return Change(name, title, points, float(low), float(high), before_ms, after_ms)

    @property
    def long_by(self) -> str | None:
        """The part in which long steps are longer than before, above all."""
        surplus_2P = self.mean_2V[:, len(NAMES) :]
        return NAMES[int((surplus_2P[1] - surplus_2P[0]).argmax())] if surplus_2P.any() else None


def _drawn(before: StepTimes, after: StepTimes, ideal_ms: float | None) -> _Drawn:
    scale = same_work(before, after)
    long_S = is_long(np.concatenate((before.step_ms_S, scale * after.step_ms_S)))
    windows = np.split(long_S, [before.step_S.size])
    values = [
        usual_and_surplus(before.part_PS, windows[0]),
        usual_and_surplus(scale * after.part_PS, windows[1]),
    ]
    random = np.random.default_rng(_SEED)
    draws = [drawn_means(value_VS, _block(value_VS), random) for value_VS in values]
    means = [value_VS.mean(axis=1) for value_VS in values]
    num_long = [int(long_S.sum()) for long_S in windows]
    return _Drawn(np.array(means), np.array(draws), num_long, ideal_ms)


def _of_part(before: StepTimes, after: StepTimes, name: str, ideal_ms: float | None) -> Change:
    """Of one part over all steps, on the rank that has most of it: the others wait meanwhile."""
    scale = same_work(before, after)
    values = [np.array([times.longest(name), times.step_ms_S]) for times in (before, after)]
    values[1] *= scale
    random = np.random.default_rng(_SEED)
    draws = [drawn_means(value_2S, block_length(value_2S[0]), random) for value_2S in values]
    means = [value_2S.mean(axis=1)[None] for value_2S in values]
    points, point_N = (
        (now[:, 0] - was[:, 0]) * points_per_ms(was[:, 1:], now[:, 1:], ideal_ms)[:, 0]
        for was, now in (means, draws)
    )
    low, high = np.percentile(point_N, _WITHIN)
    title = title_of(name, ideal_ms is not None)
    took = (float(mean[0, 0]) for mean in means)
    return Change(name, title, float(points[0]), float(low), float(high), *took)


def _changes(drawn: _Drawn) -> tuple[Change, ...]:
    """Of each part that one of the windows has, the greatest first."""
    changes = [
        drawn.change(name, slice(at, at + 1))
        for at, name in enumerate(NAMES)
        if drawn.mean_2V[:, at].any()
    ]
    if drawn.mean_2V[:, len(NAMES) :].any():
        changes.append(drawn.change(LONG_STEPS, slice(len(NAMES), None)))
    return tuple(sorted(changes, key=lambda change: -change.points))


def _block(value_VS: Floats) -> int:
    """Steps that stay together: as the step's usual time asks for."""
    return block_length(value_VS[: len(NAMES)].sum(axis=0))
