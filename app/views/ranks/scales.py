"""The metrics of ranks, and how a number becomes a colour: the same on every page.

One byte per value, ordered so that the greatest byte of a block is its greatest deviation:

    0 not recorded | 1 within noise (grey) | 2s less than the peers, 2s + 1 more, strength s 1..127

A deviation is relative to the peers: slowdown - 1, or (value - peers' median) / the job's step
time. The strongest colour is at `Metric.full`, fixed per metric. Noise is `noise_factor` times the
spread (MAD) of the peers; assets/lib/canvas/colour.mjs turns the bytes into colours.

Shape suffixes: R rank, S step; ... any shape.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ingest.errors import UserError

Floats = npt.NDArray[np.float32]
Bytes = npt.NDArray[np.uint8]
Ints = npt.NDArray[np.int64]

NO_DATA = 0
IN_NOISE = 1
STRONGEST = 127
NOISE_MADS = 3.0
_SIGMA_PER_MAD = 1.4826


@dataclass(frozen=True)
class Metric:
    """One metric of ranks: its query, its texts and its colours."""

    name: str
    title: str
    unit: str
    meaning: str
    """one sentence"""
    asks: str
    """`metric` of sql/rank_cells.sql"""
    question: str = "rank_cells"
    decimals: int = 1
    full: float = 0.25
    """deviation with the strongest colour: share of the step time; of the peers for slowdown"""

    @property
    def is_ratio(self) -> bool:
        """Whether the value is a ratio to the peers, not a time."""
        return self.unit == "x"

    def to_json(self) -> dict[str, Any]:
        """The metric for the browser."""
        return asdict(self)


_ALL = (
    Metric(
        "slowdown",
        "Slowdown",
        "x",
        "Compute of a rank (CPU time if the job runs on CPU) divided by the median of its peers.",
        "work",
        decimals=2,
        full=0.5,
    ),
    Metric(
        "step_time",
        "Step time",
        "ms",
        "End of a step minus the end of the one before it.",
        "step_time",
    ),
    Metric(
        "compute",
        "Compute",
        "ms",
        "Time in forward, backward and optimizer (or compute kernels), overlaps counted once.",
        "compute",
    ),
    Metric(
        "cpu",
        "CPU time of compute",
        "ms",
        "CPU time of the compute, if recorded; waiting does not count.",
        "cpu",
    ),
    Metric(
        "exposed_comm",
        "Exposed communication",
        "ms",
        "Communication that is not hidden by compute of the rank.",
        "exposed_comm",
    ),
    Metric(
        "exposed_tp",
        "Exposed TP communication",
        "ms",
        "Tensor-parallel communication that is not hidden by compute of the rank.",
        "exposed_tp",
    ),
    Metric(
        "exposed_pp",
        "Exposed PP communication",
        "ms",
        "Sends and receives between pipeline stages that are not hidden by compute of the rank.",
        "exposed_pp",
    ),
    Metric(
        "exposed_dp",
        "Exposed DP communication",
        "ms",
        "Data-parallel communication that is not hidden by compute of the rank.",
        "exposed_dp",
    ),
    Metric(
        "data_wait",
        "Data wait",
        "ms",
        "Time a step waited for its next batch.",
        "data_wait",
    ),
    Metric(
        "bubble",
        "Idle",
        "ms",
        "Recorded time in which the rank neither computes, waits for data nor transfers data: "
        "schedule bubble, waiting for a rank, host work.",
        "bubble",
    ),
    Metric(
        "wait",
        "Wait",
        "ms",
        "Time the rank waited for members that arrived later, in groups within its stage; "
        "high for victims.",
        "wait",
    ),
    Metric(
        "wait_caused",
        "Wait caused",
        "rank-ms",
        "Time the others waited because the rank arrived last, in groups within one stage; "
        "high for the culprit.",
        "wait_caused",
    ),
    Metric(
        "not_visible",
        "Not visible",
        "ms",
        "Time of the step without any record; it may be compute or idle.",
        "not_visible",
    ),
)

METRICS: dict[str, Metric] = {metric.name: metric for metric in _ALL}
"""By name, in the order of menus; the first is the default."""

DEFAULT = _ALL[0].name


def metric_of(name: str | None) -> Metric:
    """The metric of that name (None: the default); raises UserError naming all metrics."""
    metric = METRICS.get(name or DEFAULT)
    if metric is None:
        names = ", ".join(METRICS)
        raise UserError(f"there is no metric {str(name)[:40]!r}; choose one of {names}")
    return metric


def noise_factor(num_values: int, cells_per_value: int = 1) -> float:
    """How many MADs of single cells count as noise among `num_values` values shown together.

    Usually 3. With so many values that some are further out by chance alone, their expected extreme
    sigma sqrt(2 ln N) (Donoho and Johnstone's universal threshold); a value that is a mean over
    `cells_per_value` steps has the smaller sigma of a mean.
    """
    extreme = math.sqrt(2 * math.log(max(num_values, 2)) / max(cells_per_value, 1))
    return max(NOISE_MADS, _SIGMA_PER_MAD * extreme)


def codes(deviation: Floats, noise: Floats, full: float) -> Bytes:
    """One byte per deviation (same shapes; NaN: not recorded); see the top of the module."""
    size = np.abs(deviation)
    strength = np.minimum(np.rint(np.nan_to_num(size) * (STRONGEST / full)), STRONGEST)
    coloured = 2 * strength.astype(np.uint8) + (deviation > 0)
    is_coloured = (size > noise) & (strength >= 1)  # less than a 127th of the scale has no colour
    code = np.where(is_coloured, coloured, IN_NOISE).astype(np.uint8)
    code[np.isnan(deviation)] = NO_DATA
    return code


def legend(metric: Metric, step_ms: float, noise: float) -> dict[str, Any]:
    """The scale for the browser: `full` and `noise` in the metric's unit, and the centre.

    `noise`: deviation within which colours are grey (of the median group). `centre`: 1 for ratios,
    None if the centre is the peers' median.
    """
    unit = 1.0 if metric.is_ratio else step_ms
    return {
        "metric": metric.to_json(),
        "centre": 1.0 if metric.is_ratio else None,
        "full": metric.full * unit,
        "noise": noise * unit if math.isfinite(noise) else None,
        "share_of_step": None if metric.is_ratio else metric.full,
    }
