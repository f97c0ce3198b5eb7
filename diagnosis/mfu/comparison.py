"""Two windows of steps: which parts grew, and by how much MFU fell for it.

MFU is (time of the FLOPs at peak) / (time of a step), so a part that takes longer by d ms per step
costs MFU_before * d / step_after points, exactly: the parts add up to the change. Parts that
take as long as before count nothing, though their share of the step changes. Where the FLOPs of
steps vary, times are those for the work of a mean step before. Without FLOPs or peak
a part counts d / step_before: percent by which steps are longer.

Steps that are unusually long are a part by themselves: few of them would hide what all the others
have in common.

Shape suffixes: V values (parts, then the long steps' surplus by part), S steps, N draws.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from diagnosis.mfu.bootstrap import block_length, drawn_means
from diagnosis.mfu.parts import NAMES, title_of
from diagnosis.mfu.step_times import StepTimes

Floats = npt.NDArray[np.float64]

LONG_STEPS = "long_steps"
LONG_TITLE = "Unusually long steps"
LONG_MADS = 6.0
"""Median absolute deviations beyond which a step is unusually long: four standard deviations."""
_WITHIN = (2.5, 97.5)
"""Percentiles of the interval: 95 %."""
_SEED = 20_402
FEWEST = 4
"""Steps of a window."""


@dataclass(frozen=True)
class Change:
    """By how much a part changed, in the unit of its comparison, and a 95 % interval; more is
    worse. `before_ms`, `after_ms`: per step.
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
    """`lost`: all parts together. Unit: points of MFU, or percent of the step time before where MFU
    is unknown (`mfu_before` None). `changes`: the greatest first. `long_by`: the part in which
    unusually long steps are longer, above all; None where there are none.
    """

    before: tuple[int, int]
    after: tuple[int, int]
    num_before: int
    num_after: int
    mfu_before: float | None
    mfu_after: float | None
    step_ms_before: float
    step_ms_after: float
    lost: Change
    changes: tuple[Change, ...]
    long_by: str | None
    why_no_mfu: str

    @property
    def in_points(self) -> bool:
        """Whether the unit is points of MFU."""
        return self.mfu_before is not None

    def of(self, name: str) -> Change | None:
        """The change of a part; None where neither window has it."""
        return next((change for change in self.changes if change.name == name), None)


def compare(before: StepTimes, after: StepTimes) -> Comparison:
    """Raises ValueError where a window has too few steps."""
    for window in (before, after):
        if window.step_S.size < FEWEST:
            raise ValueError(
                f"a window has {window.step_S.size} finished steps; give at least {FEWEST}"
            )
    why = before.why_no_mfu or after.why_no_mfu
    ideal_ms = None if why else float(before.ideal_ms_S.mean())
    drawn = _drawn(before, after, ideal_ms)
    surplus_V = drawn.point_V[len(NAMES) :]
    return Comparison(
        before=(int(before.step_S[0]), int(before.step_S[-1])),
        after=(int(after.step_S[0]), int(after.step_S[-1])),
        num_before=before.step_S.size,
        num_after=after.step_S.size,
        mfu_before=None if ideal_ms is None else ideal_ms / float(before.step_ms_S.mean()),
        mfu_after=None if why else float(after.ideal_ms_S.mean() / after.step_ms_S.mean()),
        step_ms_before=float(before.step_ms_S.mean()),
        step_ms_after=float(after.step_ms_S.mean()),
        lost=drawn.change("all", "All parts", slice(None)),
        changes=_changes(drawn, mfu_known=not why),
        long_by=NAMES[int(surplus_V.argmax())] if surplus_V.any() else None,
        why_no_mfu=why,
    )


@dataclass(frozen=True)
class _Drawn:
    """Means of both windows, ms, and changes: as measured and of N draws."""

    mean_2V: Floats
    point_V: Floats
    point_NV: Floats

    def change(self, name: str, title: str, values: slice) -> Change:
        """Of some values together."""
        low, high = np.percentile(self.point_NV[:, values].sum(axis=1), _WITHIN)
        before_ms, after_ms = self.mean_2V[:, values].sum(axis=1).tolist()
        points = float(self.point_V[values].sum())
        return Change(name, title, points, float(low), float(high), before_ms, after_ms)


def _drawn(before: StepTimes, after: StepTimes, ideal_ms: float | None) -> _Drawn:
    values = [_values(before, 1.0), _values(after, _same_work(before, after))]
    random = np.random.default_rng(_SEED)
    draws = [drawn_means(value_VS, _block(value_VS), random) for value_VS in values]
    mean_2V = np.array([value_VS.mean(axis=1) for value_VS in values])
    point_V = _points(mean_2V[:1], mean_2V[1:], ideal_ms)[0]
    return _Drawn(mean_2V, point_V, _points(draws[0], draws[1], ideal_ms))


def _changes(drawn: _Drawn, mfu_known: bool) -> tuple[Change, ...]:
    """Of each part that one of the windows has, the greatest first."""
    places = {name: slice(at, at + 1) for at, name in enumerate(NAMES)}
    places[LONG_STEPS] = slice(len(NAMES), None)
    titles = {name: title_of(name, mfu_known) for name in NAMES} | {LONG_STEPS: LONG_TITLE}
    changes = [
        drawn.change(name, titles[name], values)
        for name, values in places.items()
        if drawn.mean_2V[:, values].any()
    ]
    return tuple(sorted(changes, key=lambda change: -change.points))


def _same_work(before: StepTimes, after: StepTimes) -> float:
    """Work of a mean step before, in that of one after: by what their FLOPs take at peak, else by
    the FLOPs; 1 where these are unknown.
    """
    for name in ("ideal_ms_S", "tflop_S"):
        work = [float(getattr(times, name).mean()) for times in (before, after)]
        if np.isfinite(work).all() and min(work) > 0:
            return work[0] / work[1]
    return 1.0


def _values(times: StepTimes, scale: float) -> Floats:
    """(V, S): times of the parts, as usual steps have them, and what long steps have more."""
    part_PS = scale * times.part_PS
    is_usual_S = ~is_long(times.step_ms_S)
    usual_P1 = part_PS[:, is_usual_S].mean(axis=1, keepdims=True)
    surplus_PS = np.where(is_usual_S, 0.0, part_PS - usual_P1)
    return np.concatenate((part_PS - surplus_PS, surplus_PS))


def is_long(step_ms_S: Floats) -> npt.NDArray[np.bool_]:
    """Which steps are unusually long."""
    middle = np.median(step_ms_S)
    spread = np.median(np.abs(step_ms_S - middle))
    return np.asarray((step_ms_S > middle + LONG_MADS * spread) & (spread > 0), dtype=np.bool_)


def _block(value_VS: Floats) -> int:
    """Steps that stay together: as the step's usual time asks for."""
    return block_length(value_VS[: len(NAMES)].sum(axis=0))


def _points(before_NV: Floats, after_NV: Floats, ideal_ms: float | None) -> Floats:
    """By value: points of MFU lost, or percent of the step before where MFU is unknown. `ideal_ms`:
    what the FLOPs of a step take at peak.
    """
    more_NV = after_NV - before_NV
    before_N1, after_N1 = (values.sum(axis=1, keepdims=True) for values in (before_NV, after_NV))
    if ideal_ms is None:
        return np.asarray(100 * more_NV / before_N1, dtype=np.float64)
    points = 100 * ideal_ms * more_NV / (before_N1 * after_N1)
    return np.asarray(points, dtype=np.float64)
