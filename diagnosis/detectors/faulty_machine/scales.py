"""What is usual: the place of each machine among its peers, and how far machines stray from it.

A machine that is odd and healthy stays where it is: only a change counts. The usual distance is the
job's, and moves slowly. A shift must also matter: below a share of the metric's own level, or
below what its unit makes negligible, it is none, however steady the others are.

Shapes: R rows (the metrics, absence, all together), N machines, B bins.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from diagnosis.detectors.faulty_machine.series import Singles

MAD_TO_SIGMA = 1.4826

LEAST_SHARE = 0.02
"""Of a metric's level, one sigma is at least this."""

_LEAST_BY_UNIT = (
    ("_ratio", 0.01),
    ("_percent", 1.0),
    ("_seconds_total", 0.01),
    ("_bytes_total", 1e5),
    ("_total", 1.0),
)
"""The same in absolute terms, by the end of the name: 1 % of a share, of a core or of
the time, 100 kB/s, 1 event a second."""

_TINY = 1e-6
"""Of a metric that was always zero, any other value is out."""

_LEAST_CORES = 0.5
"""Of CPU times, in cores: of dozens, whole ones are busy more or less by chance."""

LEAST_ABSENT = 0.08
"""Sigma of the share of metrics without a sample: a few per cent are lost on the way."""

PHASE_SHARE = 0.1
"""Machines may follow a change of the whole job (checkpoint, evaluation, restart) by this share of
it more or less than others, beyond what their usual place explains."""

_MOST_TIMES, _CHANGED = 3.0, 2.0
_LEVEL_S, _BASE_RATE, _SIGMA_RATE = 600.0, 0.05, 0.05
"""The usual level follows within ten minutes; a machine's place and sigma by so much each block."""


@dataclass
class Scales:
    """State. `base_RN`: usual residual; `sigma_RN`: its usual deviation; `level_RN`: of the job,
    and     `level_noise_RN` how much that varies; `least_R`: the smallest sigma.
    """

    base_RN: Singles
    sigma_RN: Singles
    level_RN: Singles
    level_noise_RN: Singles
    least_R: Singles

    @classmethod
    def of(cls, own_RBN: Singles, level_RBN: Singles, least_R: Singles) -> Scales:
        """Measured in a first stretch."""
        base_RN = middle(own_RBN, axis=1)
        away_RBN = np.abs(own_RBN - base_RN[:, None])
        of_machine_RN = MAD_TO_SIGMA * middle(away_RBN, axis=1)
        of_job_R1 = middle(of_machine_RN, axis=1)[:, None]
        level_RN = middle(level_RBN, axis=1)
        share_R1 = LEAST_SHARE * middle(np.abs(level_RN), axis=1)[:, None]
        least_R1 = np.fmax(np.fmax(least_R[:, None], share_R1), np.float32(_TINY))
        sigma_RN = np.fmax(np.fmax(of_machine_RN, of_job_R1), least_R1)
        noise_RN = MAD_TO_SIGMA * middle(np.abs(level_RBN - level_RN[:, None]), axis=1)
        return cls(base_RN, sigma_RN.astype(np.float32), level_RN, noise_RN, least_R1[:, 0])

    def deviations(
        self, own_RN: Singles, level_RN: Singles, groups: Sequence[npt.NDArray[np.intp]]
    ) -> Singles:
        """In sigmas; of the second's own spread where all machines stray, as in a transition."""
        away_RN = self._away(own_RN, level_RN)
        spread_RN = np.empty_like(away_RN)
        for members in groups:
            spread_RN[:, members] = middle(np.abs(away_RN[:, members]), axis=1)[:, None]
        phase_RN = PHASE_SHARE * np.abs(level_RN - self.level_RN)
        scale_RN = np.fmax(self.sigma_RN, MAD_TO_SIGMA * spread_RN) + np.nan_to_num(phase_RN)
        deviation_RN: Singles = away_RN / scale_RN
        return deviation_RN

    def _away(self, own_RN: Singles, level_RN: Singles) -> Singles:
        """From what is expected: a machine follows the job by the same amount as the others, or by
        the same share, or by anything between the two.
        """
        with np.errstate(invalid="ignore", divide="ignore"):
            share_RN = np.clip(level_RN / self.level_RN, 0.0, _MOST_TIMES)
        by_share_RN = np.where(np.isfinite(share_RN), self.base_RN * share_RN, self.base_RN)
        low_RN = np.minimum(self.base_RN, by_share_RN)
        return own_RN - np.clip(own_RN, low_RN, np.maximum(self.base_RN, by_share_RN))

    def has_changed(self, own_RN: Singles, level_RN: Singles) -> npt.NDArray[np.bool_]:
        """Whether a machine's own value is above or below what is usual for it, [2, R, N]: one that
        goes on as before while its peers change is not what changed.
        """
        away_RN = own_RN + level_RN - self.base_RN - self.level_RN
        least_RN = _CHANGED * self.sigma_RN
        return np.stack([away_RN > least_RN, away_RN < -least_RN])

    def follow_level(self, level_RN: Singles, bin_s: float) -> None:
        """After each bin."""
        moved_RN = np.nan_to_num(level_RN - self.level_RN) * np.float32(min(bin_s / _LEVEL_S, 1.0))
        self.level_RN = np.where(np.isnan(self.level_RN), level_RN, self.level_RN + moved_RN)

    def follow_machines(self, own_RBN: Singles, is_calm_RN: npt.NDArray[np.bool_]) -> None:
        """After each block: machines that nothing is suspected of."""
        away_RN = middle(own_RBN, axis=1) - self.base_RN
        away_RN = np.where(is_calm_RN, np.clip(away_RN, -self.sigma_RN, self.sigma_RN), 0.0)
        known_RN = np.isnan(self.base_RN)
        self.base_RN = np.where(
            known_RN, middle(own_RBN, axis=1), self.base_RN + _BASE_RATE * np.nan_to_num(away_RN)
        ).astype(np.float32)
        own_R = MAD_TO_SIGMA * middle(middle(np.abs(own_RBN - self.base_RN[:, None]), 1), 1)
        job_R = middle(self.sigma_RN, axis=1)
        factor_R = 1 + _SIGMA_RATE * np.clip(np.nan_to_num(own_R / job_R, nan=1.0) - 1, -0.5, 1.0)
        sigma_RN = np.fmax(self.sigma_RN * factor_R[:, None], self.least_R[:, None])
        self.sigma_RN = sigma_RN.astype(np.float32)


def least_sigmas(metrics: Sequence[str]) -> Singles:
    """The smallest sigma of each metric, by unit; 0 where its name shows none."""
    return np.array([_least_sigma(name) for name in metrics], np.float32)


def _least_sigma(name: str) -> float:
    if "cpu_" in name and "_seconds_total" in name and "pressure" not in name:
        return _LEAST_CORES
    return next((least for end, least in _LEAST_BY_UNIT if end in name), 0.0)


def middle(values: Singles, axis: int) -> Singles:
    """Median of what is known; NaN of nothing."""
    if not np.isnan(values).any():
        return np.asarray(np.median(values, axis=axis), np.float32)
    ordered = np.sort(np.moveaxis(values, axis, -1), axis=-1)  # NaN last
    known = ordered.shape[-1] - np.isnan(ordered).sum(axis=-1, keepdims=True)
    low = np.take_along_axis(ordered, np.maximum((known - 1) // 2, 0), axis=-1)
    high = np.take_along_axis(ordered, np.minimum(known // 2, ordered.shape[-1] - 1), axis=-1)
    return np.asarray(((low + high) / 2)[..., 0], np.float32)
