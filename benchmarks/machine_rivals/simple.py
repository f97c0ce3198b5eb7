"""3-sigma, median and MAD per metric, and leave-one-out Mahalanobis with shrinkage."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from benchmarks.machine_rivals import Floats, Singles

_SHRINKAGE = 0.1
_MOST_COMPARED = 256
"""Mahalanobis takes the covariance over so many machines at most."""

Ranked = tuple[npt.NDArray[np.intp], Floats]


def three_sigma(windows_MWN: Singles) -> Ranked:
    """Largest distance to the mean over machines, in standard deviations."""
    mean = windows_MWN.mean(axis=2, keepdims=True)
    spread = np.maximum(windows_MWN.std(axis=2, keepdims=True), 1e-3)
    return _furthest(np.abs(windows_MWN - mean) / spread)


def median_mad(windows_MWN: Singles) -> Ranked:
    """Largest distance to the median over machines, in scaled MADs."""
    away = np.abs(windows_MWN - np.median(windows_MWN, axis=2, keepdims=True))
    spread = 1.4826 * np.median(away, axis=2, keepdims=True)
    return _furthest(away / np.maximum(spread, 1e-2))


def mahalanobis(windows_MWN: Singles) -> Ranked:
    """Distance of a machine's window to those of the others, by their covariance."""
    num_metrics, num_windows, num_machines = windows_MWN.shape
    top = np.zeros(num_windows, np.intp)
    score = np.zeros(num_windows)
    for window in range(num_windows):
        x_NM = windows_MWN[:, window].T.astype(np.float64)
        mean_M = x_NM.mean(axis=0)
        away_NM = x_NM - mean_M
        part = away_NM[:_MOST_COMPARED]
        covariance = part.T @ part / max(len(part) - 1, 1)
        trace = np.trace(covariance) / num_metrics + 1e-6
        shrunk = (1 - _SHRINKAGE) * covariance + _SHRINKAGE * trace * np.eye(num_metrics)
        square_N = np.einsum("nm,mk,nk->n", away_NM, np.linalg.inv(shrunk), away_NM)
        left_out = num_machines / (num_machines - 1)  # of a mean that holds the machine itself
        top[window] = square_N.argmax()
        score[window] = np.sqrt(square_N.max()) * left_out
    return top, score


def _furthest(score_MWN: Floats | Singles) -> Ranked:
    by_machine_WN = score_MWN.max(axis=0)
    top = by_machine_WN.argmax(axis=1)
    return top, by_machine_WN.max(axis=1).astype(np.float64)
