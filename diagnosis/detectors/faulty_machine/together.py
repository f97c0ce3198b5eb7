"""All metrics of a machine together: what is left of a window without what machines usually do.

The principal components of healthy windows span what metrics do together (a machine that sends more
also computes more); the rest of a window, in sigmas per metric, is a series of its own.

Shapes: M metrics, N machines, K kept components.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from diagnosis.detectors.faulty_machine.series import Singles

WINDOW_S = 30.0

_EXPLAINED = 0.8
"""Share of the healthy variance that the kept components take."""

_RATE = 0.1
"""By how much each block of time moves the covariance."""


@dataclass
class Together:
    """State: the newest windows' sums, and the covariance of healthy windows."""

    num_metrics: int
    num_machines: int
    window: int
    recent: list[Singles] = field(default_factory=list)
    covariance_MM: npt.NDArray[np.float64] | None = None
    kept_MK: npt.NDArray[np.float64] = field(init=False)

    def __post_init__(self) -> None:
        self.kept_MK = np.zeros((self.num_metrics, 0))
        self.total_MN = np.zeros((self.num_metrics, self.num_machines))

    def push(self, deviation_MN: Singles) -> Singles:
        """The rest of the window that ends with this bin, in sigmas per metric, [N]."""
        known_MN = np.nan_to_num(deviation_MN)
        self.recent.append(known_MN)
        self.total_MN += known_MN
        if len(self.recent) > self.window:
            self.total_MN -= self.recent.pop(0)
        mean_MN = self.total_MN / len(self.recent)
        rest_MN = mean_MN - self.kept_MK @ (self.kept_MK.T @ mean_MN)
        num = max(self.num_metrics - self.kept_MK.shape[1], 1)
        return np.asarray(np.sqrt((rest_MN**2).sum(axis=0) / num), np.float32)

    def learn(self, is_calm_N: npt.NDArray[np.bool_]) -> None:
        """After each block, from the windows of machines that nothing is suspected of."""
        mean_MN = (self.total_MN / max(len(self.recent), 1))[:, is_calm_N]
        if mean_MN.shape[1] < 2:
            return
        new_MM = mean_MN @ mean_MN.T / mean_MN.shape[1]
        old_MM = self.covariance_MM
        self.covariance_MM = new_MM if old_MM is None else (1 - _RATE) * old_MM + _RATE * new_MM
        values_M, vectors_MM = np.linalg.eigh(self.covariance_MM)
        share_M = np.cumsum(values_M[::-1]) / max(float(values_M.sum()), 1e-12)
        num = min(int(np.searchsorted(share_M, _EXPLAINED)) + 1, self.num_metrics // 2)
        self.kept_MK = vectors_MM[:, ::-1][:, :num]
