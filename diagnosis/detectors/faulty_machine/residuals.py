"""How far each machine is from the others in the same second, and the mean of it over short bins.

Shapes: M metrics, T seconds, N machines, B bins of BIN seconds. All causal: what later seconds hold
changes nothing in earlier bins, so seconds can be pushed one by one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from diagnosis.detectors.faulty_machine.series import Singles

BIN = 3
"""Seconds of a bin: short against the time for which a deviation must last."""

_LEAVE_OUT = 32
"""Up to this many machines, each is compared with the others without itself."""


@dataclass(frozen=True)
class Residuals:
    """Distance to the median of the peers, that median, and the share of a machine's usual metrics
    that have no sample.
    """

    own_MBN: Singles
    level_MBN: Singles
    absent_BN: Singles


def residuals_of(
    values_MTN: Singles, groups: Sequence[npt.NDArray[np.intp]], usual_MN: npt.NDArray[np.bool_]
) -> Residuals:
    """T must be a multiple of BIN. `usual_MN`: which metrics a machine records."""
    num_metrics, num_seconds, num_machines = values_MTN.shape
    if num_seconds % BIN:
        raise ValueError(f"{num_seconds} seconds; give a multiple of {BIN}")
    own_MTN = np.empty_like(values_MTN)
    level_MTN = np.empty_like(values_MTN) if len(groups) > 1 else None
    level_MT1 = None
    for members in groups:
        whole = members.size == num_machines
        group_MTN = values_MTN if whole else values_MTN[:, :, members]
        middle_MTN = medians(group_MTN)
        if whole:
            np.subtract(group_MTN, middle_MTN, out=own_MTN)
            level_MT1 = middle_MTN
        elif level_MTN is not None:
            own_MTN[:, :, members] = group_MTN - middle_MTN
            level_MTN[:, :, members] = middle_MTN
    level = level_MTN if level_MTN is not None else level_MT1
    assert level is not None
    level_MBN = np.broadcast_to(_means(level), (num_metrics, num_seconds // BIN, num_machines))
    absent_BN = _absent(own_MTN, usual_MN)
    return Residuals(_means(own_MTN), level_MBN, absent_BN)


def medians(values_MTN: Singles) -> Singles:
    """Median of the other machines, [M, T, N], or for many machines of all, [M, T, 1]."""
    num = values_MTN.shape[-1]
    sorted_MTN = np.sort(values_MTN, axis=-1)  # NaN last
    known_MT = num - np.isnan(sorted_MTN).sum(axis=-1, keepdims=True)
    half_MT = known_MT // 2
    if num > _LEAVE_OUT:
        low_MT = _at(sorted_MTN, (known_MT - 1) // 2)
        return np.asarray((low_MT + _at(sorted_MTN, half_MT - (known_MT == 0))) / 2, np.float32)
    before_MT, middle_MT = _at(sorted_MTN, half_MT - 1), _at(sorted_MTN, half_MT)
    after_MT = _at(sorted_MTN, half_MT + 1)
    even_MTN = np.where(values_MTN <= before_MT, middle_MT, before_MT)
    odd_MTN = np.where(
        values_MTN < middle_MT,
        (middle_MT + after_MT) / 2,
        np.where(values_MTN > middle_MT, (before_MT + middle_MT) / 2, (before_MT + after_MT) / 2),
    )
    chosen_MTN = np.where(known_MT % 2 == 0, even_MTN, odd_MTN)
    return np.where(known_MT > 2, chosen_MTN, np.nan).astype(np.float32)


def _at(sorted_MTN: Singles, index_MT: npt.NDArray[np.intp]) -> Singles:
    index_MT = np.clip(index_MT, 0, sorted_MTN.shape[-1] - 1)
    return np.take_along_axis(sorted_MTN, index_MT, axis=-1)


def _means(values_MTN: Singles) -> Singles:
    """Mean over the seconds of each bin that have a sample."""
    num_metrics, num_seconds, num_machines = values_MTN.shape
    by_bin = values_MTN.reshape(num_metrics, num_seconds // BIN, BIN, num_machines)
    total = np.zeros(by_bin[:, :, 0].shape, np.float32)
    number = np.zeros(total.shape, np.float32)
    for second in range(BIN):
        part = by_bin[:, :, second]
        known = ~np.isnan(part)
        np.add(total, part, out=total, where=known)
        number += known
    with np.errstate(invalid="ignore", divide="ignore"):
        total /= number
    return total


def _absent(own_MTN: Singles, usual_MN: npt.NDArray[np.bool_]) -> Singles:
    """Share of its usual metrics that a machine lacks, mean of each bin."""
    num_metrics, num_seconds, num_machines = own_MTN.shape
    lacks_TN = np.zeros((num_seconds, num_machines), np.float32)
    for metric in range(num_metrics):
        lacks_TN += np.isnan(own_MTN[metric]) & usual_MN[metric]
    lacks_TN /= np.maximum(usual_MN.sum(axis=0), 1)
    return np.asarray(lacks_TN.reshape(-1, BIN, num_machines).mean(axis=1), np.float32)
