"""A job's machines, drawn from a seed: their metrics with one fault, or none.

Shapes: M metrics, N machines, T seconds.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sample_traces.generate.machines.faults import EFFECTS, Change, changed
from sample_traces.generate.machines.noise import Floats, noise, wander
from sample_traces.generate.machines.worlds import (
    DOSES,
    LARGE,
    LARGE_SIZES,
    METRICS,
    MIX,
    SIZES,
    WRITING,
    Metric,
    Range,
    Ranges,
)

Singles = npt.NDArray[np.float32]


@dataclass(frozen=True)
class Fault:
    """One fault: of which machine, since which second."""

    kind: str
    dose: str
    machine: int
    begin_s: float


@dataclass(frozen=True)
class MachineJob:
    """What machines recorded, counters as increases per second; NaN where a sample is lost.
    `role_N`: pipeline stage of each machine.
    """

    metrics: tuple[str, ...]
    values_MTN: Singles
    role_N: npt.NDArray[np.int64]
    fault: Fault | None
    decoys: tuple[str, ...]

    @property
    def num_machines(self) -> int:
        """Of the job."""
        return self.values_MTN.shape[2]


def draw_job(
    seed: int,
    num_seconds: int,
    kind: str = "",
    dose: str = "loud",
    num_machines: int = 0,
    ranges: Ranges | None = None,
) -> MachineJob:
    """A job of this seed; `kind` "": a healthy one. `num_machines` 0: drawn."""
    return _Drawn(seed, num_seconds, num_machines, ranges or Ranges()).job(kind, dose)


def draw_kind(rng: np.random.Generator) -> str:
    """A kind of fault by the published mix."""
    shares = np.array(list(MIX.values()))
    return str(rng.choice(list(MIX), p=shares / shares.sum()))


class _Drawn:
    """What one seed gives."""

    def __init__(self, seed: int, num_seconds: int, num_machines: int, ranges: Ranges) -> None:
        self.rng = np.random.default_rng(seed)
        self.ranges = ranges
        self.num_T = num_seconds
        large = self.rng.random() < LARGE
        self.num_N = num_machines or int(self.rng.choice(LARGE_SIZES if large else SIZES))
        self.decoys: list[str] = []

    def of(self, pair: Range, size: int | None = None) -> float | Floats:
        """An even draw."""
        return self.rng.uniform(*pair, size)

    def one(self, pair: Range) -> float:
        """An even draw of one."""
        return float(self.rng.uniform(*pair))

    def job(self, kind: str, dose: str) -> MachineJob:
        """Draw all of it."""
        metrics = self._recorded(kind)
        role_N = self._roles()
        fault = self._fault(kind, dose)
        activity_TN, writing_TN = self._activity(fault)
        values = [
            self._values(metric, activity_TN, writing_TN, role_N, fault) for metric in metrics
        ]
        values_MTN = np.array(values, np.float32)
        self._jitter(values_MTN, metrics, fault)
        self._lose(values_MTN, metrics, fault)
        names = tuple(metric.name for metric in metrics)
        return MachineJob(names, values_MTN, role_N, fault, tuple(self.decoys))

    def _recorded(self, kind: str) -> list[Metric]:
        """Some of the metrics, at least two of those that the fault changes."""
        num = round(self.one(self.ranges.recorded) * len(METRICS))
        order = self.rng.permutation(len(METRICS))
        needed = [m for m in METRICS if kind and m.name in EFFECTS[kind].own]
        must = [needed[i] for i in self.rng.permutation(len(needed))[:2]]
        chosen = {m.name for m in must} | {METRICS[i].name for i in order[:num]}
        return [metric for metric in METRICS if metric.name in chosen]

    def _roles(self) -> npt.NDArray[np.int64]:
        stages = [s for s in (2, 4, 8) if self.num_N % s == 0 and self.num_N // s >= 2]
        if not stages or self.rng.random() > self.ranges.roles:
            return np.zeros(self.num_N, np.int64)
        self.decoys.append("stages")
        num = int(self.rng.choice(stages))
        return np.arange(self.num_N) * num // self.num_N

    def _fault(self, kind: str, dose: str) -> Fault | None:
        if not kind:
            return None
        begin_s = self.one(self.ranges.begins_s)
        return Fault(kind, dose, int(self.rng.integers(self.num_N)), begin_s)

    def _activity(self, fault: Fault | None) -> tuple[Floats, Floats]:
        """How much each machine works, 0 to 1, and whether it writes a checkpoint."""
        seconds_T = np.arange(self.num_T)
        activity_T = 1 - self.one(self.ranges.step_depth) * (
            (seconds_T % self.one(self.ranges.step_s)) < 1
        )
        phases = self._phases(fault)
        late_N = np.asarray(self.of(self.ranges.enters_late_s, self.num_N)) * self.rng.random()
        activity_TN = np.repeat(activity_T[:, None], self.num_N, axis=1).astype(float)
        writing_TN = np.zeros_like(activity_TN)
        has_writers = self.rng.random() < self.ranges.writers
        share = self.one(self.ranges.writer_share)
        writers = self.rng.permutation(self.num_N)[: max(int(share * self.num_N), 1)]
        for begin_s, length_s, work, writes in phases:
            shifted = begin_s + late_N * self.rng.permuted(np.linspace(0.5, 1.0, self.num_N))
            inside_TN = (seconds_T[:, None] >= shifted) & (seconds_T[:, None] < shifted + length_s)
            activity_TN = np.where(inside_TN, activity_TN * work, activity_TN)
            if writes:
                who = writers if has_writers else np.arange(self.num_N)
                writing_TN[:, who] += inside_TN[:, who]
        return activity_TN, writing_TN

    def _phases(self, fault: Fault | None) -> list[tuple[float, float, float, bool]]:
        """Begin, length, share of the work, and whether machines write."""
        ranges, phases = self.ranges, []
        if self.rng.random() < ranges.checkpoint:
            self.decoys.append("checkpoint")
            every_s, length_s = self.one(ranges.checkpoint_every_s), self.one(ranges.checkpoint_s)
            begin_s = self.rng.uniform(0, every_s)
            while begin_s < self.num_T:
                phases.append((begin_s, length_s, self.rng.uniform(0.02, 0.2), True))
                begin_s += every_s
        if self.rng.random() < ranges.evaluation:
            self.decoys.append("evaluation")
            begin_s = self.rng.uniform(0, self.num_T)
            phases.append(
                (begin_s, self.one(ranges.evaluation_s), self.rng.uniform(0.3, 0.8), False)
            )
        if fault is None and self.rng.random() < ranges.restart:
            self.decoys.append("restart")
            begin_s = self.rng.uniform(0, self.num_T)
            phases.append((begin_s, self.one(ranges.restart_s), 0.0, False))
        return phases

    def _values(
        self,
        metric: Metric,
        activity_TN: Floats,
        writing_TN: Floats,
        role_N: npt.NDArray[np.int64],
        fault: Fault | None,
    ) -> Floats:
        """One metric of all machines, [T, N]."""
        gain_N = self._gains(metric, role_N)
        level_TN = metric.idle + (metric.busy - metric.idle) * gain_N * activity_TN
        written = WRITING.get(metric.name)
        if written is not None:
            level_TN = level_TN + written * writing_TN
        if fault is not None:
            level_TN = self._with_fault(metric, level_TN, fault)
        level_TN = _followed(level_TN, metric.lag_s)
        if metric.events:
            return self.rng.poisson(np.maximum(level_TN, 0.0)).astype(float)
        size = self.one(metric.noise)
        own_TN = noise(self.rng, self.num_N, self.num_T).T * size
        slow_s, slow = self.one(self.ranges.wander_s), self.one(self.ranges.wander)
        own_TN += wander(self.rng, self.num_N, self.num_T, slow_s).T * size * slow
        common_T1 = noise(self.rng, 1, self.num_T).T * self.one(self.ranges.common_noise) * size
        unit = max(abs(metric.busy), abs(metric.idle)) if metric.lag_s else np.abs(level_TN)
        return np.clip(level_TN + unit * (own_TN + common_T1), 0.0, metric.most)

    def _gains(self, metric: Metric, role_N: npt.NDArray[np.int64]) -> Floats:
        gain_N = 1 + np.asarray(self.of(self.ranges.machine_gain, self.num_N))
        if role_N.any() and self.rng.random() < 0.5:
            gain_N *= np.asarray(self.of(self.ranges.role_gain, int(role_N.max()) + 1))[role_N]
        share = np.mean(self.ranges.odd_metrics) / len(METRICS)
        if self.rng.random() < self.ranges.odd * share * 2:
            self.decoys.append("odd machine")
            way = 1 if self.rng.random() < 0.5 else -1
            gain_N[int(self.rng.integers(self.num_N))] *= 1 + way * self.one(self.ranges.odd_gain)
        return gain_N

    def _with_fault(self, metric: Metric, level_TN: Floats, fault: Fault) -> Floats:
        effect, dose = EFFECTS[fault.kind], DOSES[fault.dose] * self.one(self.ranges.strength)
        dose, level_TN = min(dose, 1.0), level_TN.copy()
        ramp_s = self.one(self.ranges.ramp_s)
        others_N = np.arange(self.num_N) != fault.machine
        for which, change, begin_s in (
            (others_N, effect.others.get(metric.name), fault.begin_s + effect.spreads_s),
            (~others_N, effect.own.get(metric.name), fault.begin_s),
        ):
            if change is not None and change[0] != "gone":
                level_TN[:, which] = self._shifted(
                    metric, level_TN[:, which], change, dose, begin_s, ramp_s
                )
        return level_TN

    def _shifted(
        self,
        metric: Metric,
        level_TN: Floats,
        change: Change,
        dose: float,
        begin_s: float,
        ramp_s: float,
    ) -> Floats:
        """Levels that go over to the changed ones from a second on."""
        after_TN = changed(level_TN, change, metric.idle, dose)
        part_T = np.clip((np.arange(self.num_T) - begin_s) / max(ramp_s, 1.0), 0.0, 1.0)
        return level_TN + part_T[:, None] * (after_TN - level_TN)

    def _jitter(self, values_MTN: Singles, metrics: list[Metric], fault: Fault | None) -> None:
        """Short troubles of healthy machines, in place."""
        hours = self.num_N * self.num_T / 3_600
        number = int(self.rng.poisson(hours * self.one(self.ranges.jitter_per_hour)))
        for _ in range(number):
            machine = int(self.rng.integers(self.num_N))
            if fault is not None and machine == fault.machine:
                continue
            length = int(self.one(self.ranges.jitter_s))
            begin = int(self.rng.integers(0, self.num_T - length))
            for index in self.rng.permutation(len(metrics))[
                : round(self.one(self.ranges.jitter_metrics))
            ]:
                factor = 1 - self.one(self.ranges.jitter_depth)
                if self.rng.random() < 0.3:
                    factor = 1 / factor
                part = values_MTN[index, begin : begin + length, machine]
                values_MTN[index, begin : begin + length, machine] = np.minimum(
                    part * factor, metrics[index].most
                )
            self.decoys.append("jitter")

    def _lose(self, values_MTN: Singles, metrics: list[Metric], fault: Fault | None) -> None:
        """Samples that are lost on the way: of single metrics and of whole machines, in place."""
        share = self.one(self.ranges.lost)
        values_MTN[self.rng.random(values_MTN.shape) < share / 2] = np.nan
        values_MTN[:, self.rng.random(values_MTN.shape[1:]) < share / 2] = np.nan
        if fault is None:
            return
        begin, own = int(fault.begin_s), EFFECTS[fault.kind].own
        lost_T = self.rng.random(self.num_T - begin) < DOSES[fault.dose]
        for index, metric in enumerate(metrics):
            if own.get(metric.name, ("", 0.0))[0] == "gone":
                values_MTN[index, begin:, fault.machine][lost_T] = np.nan


def _followed(level_TN: Floats, lag_s: float) -> Floats:
    """A level that follows slowly, as temperatures do."""
    if not lag_s:
        return level_TN
    followed_TN = level_TN.copy()
    share = 1 - np.exp(-1 / lag_s)
    for second in range(1, len(level_TN)):
        followed_TN[second] = followed_TN[second - 1] + share * (
            level_TN[second] - followed_TN[second - 1]
        )
    return followed_TN
