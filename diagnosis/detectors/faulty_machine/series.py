"""Samples of machines as one array, second by second.

Shapes: M metrics, N machines, T seconds (of `period_s` each).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from diagnosis.statistics.rank_tables import Ints

Singles = npt.NDArray[np.float32]

FEWEST_MACHINES = 4
"""Of three machines, one that differs may as well be the only one in order."""

RECORDED_BY = 0.5
"""Share of the machines that record a metric that is judged: others are no peers."""

MOST_SECONDS = 7_200
"""Longest stretch examined; the saved query gives less."""

_SLOW, _HELD = 1.5, 3.0
"""A metric whose samples are this many periods apart is held between them, for so many times its
own distance."""


@dataclass(frozen=True)
class Series:
    """Values of all machines; NaN where there is no sample. `metrics`: names as in the saved query,
    followed by " (least)" or " (most)" where a machine has several devices of it.
    """

    machines: tuple[str, ...]
    metrics: tuple[str, ...]
    begin_s: int
    period_s: int
    values_MTN: Singles

    @property
    def num_seconds(self) -> int:
        """From the first sample to the last."""
        return int(self.values_MTN.shape[1]) * self.period_s


def series_of(rows: pa.Table) -> Series | None:
    """Rows of the saved query machine_seconds; None without samples."""
    size_K = _sizes(rows["seconds"])
    if not size_K.sum():
        return None
    machines, machine_K = _codes(rows["host"])
    names, metric_K = _codes(_names(rows))
    second_V = _flat(rows["seconds"])
    value_V = _flat(rows["values"])
    period_s = _period(second_V, size_K)
    begin_s = max(int(second_V.min()), int(second_V.max()) - MOST_SECONDS)
    num = (int(second_V.max()) - begin_s) // period_s + 1
    values_MNT = np.full((len(names), len(machines), num), np.nan, np.float32)
    ends_K = np.cumsum(size_K)
    for metric, machine, size, end in zip(metric_K, machine_K, size_K, ends_K, strict=True):
        at_V = (second_V[end - size : end] - begin_s) // period_s
        kept = int(np.searchsorted(at_V, 0))  # what is too old comes first
        values_MNT[metric, machine, at_V[kept:]] = value_V[end - size + kept : end]
    for metric in range(len(names)):
        most_samples = int(size_K[metric_K == metric].max())
        _hold(values_MNT[metric], most_samples, "_total" in names[metric])
    values_MTN = np.ascontiguousarray(values_MNT.transpose(0, 2, 1))
    return Series(tuple(machines), tuple(names), begin_s, period_s, values_MTN)


def comparable(series: Series) -> Series:
    """With the metrics that enough machines record."""
    num_M = np.isfinite(series.values_MTN).any(axis=1).sum(axis=1)
    least = max(FEWEST_MACHINES, RECORDED_BY * len(series.machines))
    kept = np.flatnonzero(num_M >= least)
    if kept.size == len(series.metrics):
        return series
    names = tuple(series.metrics[metric] for metric in kept)
    values_MTN = series.values_MTN[kept]
    return Series(series.machines, names, series.begin_s, series.period_s, values_MTN)


def _names(rows: pa.Table) -> pa.ChunkedArray:
    of = pc.if_else(
        pc.equal(rows["of"], ""), "", pc.binary_join_element_wise(" (", rows["of"], ")", "")
    )
    return pc.binary_join_element_wise(rows["metric"], of, "")


def _codes(column: pa.ChunkedArray) -> tuple[list[str], Ints]:
    """Sorted distinct values, and the index of each row's."""
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    names, code_K = np.unique(
        column.to_numpy(zero_copy_only=False).astype(str), return_inverse=True
    )
    return names.tolist(), code_K.astype(np.int64)


def _sizes(lists: pa.ChunkedArray) -> Ints:
    """Length of each list."""
    return np.asarray(pc.fill_null(pc.list_value_length(lists), 0).to_numpy(), np.int64)


def _flat(lists: pa.ChunkedArray) -> npt.NDArray[Any]:
    """The values of all lists, one after the other."""
    parts = [chunk.flatten().to_numpy(zero_copy_only=False) for chunk in lists.chunks]
    flat: npt.NDArray[Any] = parts[0] if len(parts) == 1 else np.concatenate(parts)
    return flat


def _period(second_V: Ints, size_K: Ints) -> int:
    """Usual distance of samples of the series that has most, s."""
    longest = int(size_K.argmax())
    begin = int(size_K[:longest].sum())
    own = np.unique(second_V[begin : begin + int(size_K[longest])])
    return max(int(np.median(np.diff(own))), 1) if own.size > 1 else 1


def _hold(values_NT: Singles, most_samples: int, is_counter: bool) -> None:
    """Fill what lies between the samples of a metric that is sampled more rarely, in place: with
    the last value, or, for the increase of a counter, with that up to the next sample.
    """
    num = values_NT.shape[1]
    distance = num / max(most_samples, 1)
    if distance < _SLOW:
        return
    view_NT = values_NT[:, ::-1] if is_counter else values_NT
    at_NT = np.where(np.isfinite(view_NT), np.arange(num), -1)
    last_NT = np.maximum.accumulate(at_NT, axis=1)
    held_NT = np.take_along_axis(view_NT, np.maximum(last_NT, 0), axis=1)
    is_held_NT = (last_NT >= 0) & (np.arange(num) - last_NT <= _HELD * distance)
    view_NT[...] = np.where(is_held_NT, held_NT, np.nan)


def groups_of(roles: Sequence[object]) -> list[npt.NDArray[np.intp]]:
    """Indices of machines that are compared: those of one role, if they are enough, else all."""
    everyone = np.arange(len(roles))
    by_role = {role: [i for i, other in enumerate(roles) if other == role] for role in set(roles)}
    if len(by_role) < 2 or min(map(len, by_role.values())) < FEWEST_MACHINES:
        return [everyone]
    return [np.array(members) for members in by_role.values()]
