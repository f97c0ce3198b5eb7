"""What the time of the devices went to in each step, as arrays.

Shape suffixes: P parts, in the order of parts.NAMES; L those of parts.LONGEST; S steps.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from diagnosis.mfu.parts import COMMUNICATION, LONGEST, NAMES, WAITING

QUESTIONS = ("device_time", "throughput")

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

MOST_OFF = 0.01
"""Share of the step time by which the parts may miss it."""

FLOPS_UNKNOWN = (
    "The FLOPs of the steps are not known: log them with tracer.log(flops=...), or state the sizes"
    " of the model in run.json."
)
PEAK_UNKNOWN = (
    "The peak of the devices is not known: state it in 1e12 FLOP/s per device, with --peak-tflops"
    " or in the field peak of the page."
)


@dataclass(frozen=True)
class StepTimes:
    """Means over the ranks, ms. `tflop_S`: model FLOPs of the whole step in 1e12, `peak_S`: of one
    device in 1e12 FLOP/s; NaN unknown. `world_S`: ranks of the job, `ranks_S`: those recorded.
    `known_S`: whether waiting was measured apart. `longest_LS`: parts.LONGEST of the
    rank that has most of each, ms. `gc_rank_S`: which one has most garbage collections, -1 none.
    """

    step_S: Ints
    part_PS: Floats
    step_ms_S: Floats
    tflop_S: Floats
    peak_S: Floats
    world_S: Ints
    ranks_S: Ints
    known_S: npt.NDArray[np.bool_]
    longest_LS: Floats
    gc_rank_S: Ints

    def within(self, first: int, last: int) -> StepTimes:
        """Steps first to last, both included."""
        return self.at(np.flatnonzero((self.step_S >= first) & (self.step_S <= last)))

    def at(self, index: Ints) -> StepTimes:
        """Some of the steps, by index."""
        return StepTimes(
            self.step_S[index],
            self.part_PS[:, index],
            self.step_ms_S[index],
            self.tflop_S[index],
            self.peak_S[index],
            self.world_S[index],
            self.ranks_S[index],
            self.known_S[index],
            self.longest_LS[:, index],
            self.gc_rank_S[index],
        )

    def of(self, name: str) -> Floats:
        """Time of a part in each step, ms."""
        part_S: Floats = self.part_PS[NAMES.index(name)]
        return part_S

    def longest(self, name: str) -> Floats:
        """A part of the rank that has most of it in each step, ms; of all ranks where that is not
        known.
        """
        if name not in LONGEST:
            return self.of(name)
        longest_S: Floats = self.longest_LS[LONGEST.index(name)]
        return longest_S

    @cached_property
    def ideal_ms_S(self) -> Floats:
        """How long the step's FLOPs take on all devices at peak, ms; NaN unknown."""
        ideal: Floats = 1e3 * self.tflop_S / (self.peak_S * self.world_S)
        return ideal

    @cached_property
    def work_ms_S(self) -> Floats:
        """Step times, each for the FLOPs of a mean step where all are known, ms."""
        if not (self.tflop_S > 0).all():
            return self.step_ms_S
        work: Floats = self.step_ms_S * self.tflop_S.mean() / self.tflop_S
        return work

    @property
    def hides_waiting(self) -> bool:
        """Whether what ranks wait for each other may be inside other parts."""
        shared = any(self.of(name).any() for name in (*COMMUNICATION, *WAITING))
        return bool((self.ranks_S > 1).any() and not (shared and self.known_S.all()))

    @property
    def why_no_mfu(self) -> str:
        """Why there is no MFU of all these steps; empty where there is one."""
        if not np.isfinite(self.tflop_S).all():
            return FLOPS_UNKNOWN
        return "" if (self.peak_S > 0).all() else PEAK_UNKNOWN

    @property
    def most_off(self) -> float:
        """By what share of a step its parts miss its time at most."""
        off_S = np.abs(self.part_PS.sum(axis=0) - self.step_ms_S) / self.step_ms_S
        return float(off_S.max(initial=0.0))


def step_times(tables: Mapping[str, pa.Table]) -> StepTimes:
    """From the answers of QUESTIONS; raises ValueError where parts do not add up to their steps."""
    times, speed = (tables[name] for name in QUESTIONS)
    step_S = _whole(times, "step")
    at = {int(step): row for row, step in enumerate(_whole(speed, "step"))}
    row_S = np.array([at[int(step)] for step in step_S], dtype=np.int64)
    tflops_S, long_S, peak_S = (
        _floats(speed, name)[row_S] for name in ("tflops_per_s", "step_ms", "peak_tflops")
    )
    found = StepTimes(
        step_S,
        np.array([_floats(times, f"{name}_ms") for name in NAMES]).reshape(len(NAMES), -1),
        _floats(times, "step_ms"),
        tflops_S * long_S / 1e3,
        peak_S,
        _whole(times, "world_size"),
        _whole(times, "num_ranks"),
        times["waiting_known"].to_numpy(zero_copy_only=False).astype(np.bool_),
        np.array([_floats(times, f"{name}_longest_ms") for name in LONGEST]),
        np.nan_to_num(_floats(times, "gc_rank"), nan=-1).astype(np.int64),
    )
    if found.most_off > MOST_OFF:
        raise ValueError(
            f"parts of steps miss their time by up to {100 * found.most_off:.1f} %; device_time "
            "must divide a step into disjoint parts"
        )
    return found


def _whole(table: pa.Table, name: str) -> Ints:
    return np.asarray(table[name].to_numpy(), dtype=np.int64)


def _floats(table: pa.Table, name: str) -> Floats:
    return np.asarray(table[name].to_numpy(zero_copy_only=False), dtype=np.float64)
