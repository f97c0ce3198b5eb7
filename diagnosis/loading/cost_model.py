"""What a micro-batch costs by the lengths of its sequences: a + b N + c sum(l^2).

N is the number of tokens: matrix products grow with it; causal attention grows with the square of
each sequence's length l; a is what a micro-batch costs whatever it holds. Source: what-if study
(arXiv 2505.05713), OVERLORD (arXiv 2504.09844). Assumes: padding costs the same in all
micro-batches (it is in a), and all layers look at whole sequences.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from diagnosis.statistics.rank_tables import Bools, Floats

FEWEST = 12
"""Micro-batches, to fit three numbers."""

_OUTLIER = 4.0
"""Micro-batches whose relative error is so many times the median one are left out: they were
interrupted."""


@dataclass(frozen=True)
class CostModel:
    """`fixed_ms`: of a micro-batch; `token_ms`; `square_ms`: of a squared token. `error`: median
    of |measured / modelled - 1| over the `num` micro-batches, those left out included.
    """

    fixed_ms: float
    token_ms: float
    square_ms: float
    error: float
    num: int

    def of(self, lengths: Sequence[int]) -> float:
        """Of a micro-batch with these sequences, ms."""
        return self.fixed_ms + sum(map(self.of_sequence, lengths))

    def of_sequence(self, length: int) -> float:
        """What a sequence adds, ms."""
        return self.token_ms * length + self.square_ms * length**2


def fit_cost(tokens_N: Floats, squares_N: Floats, ms_N: Floats) -> CostModel | None:
    """Least squares of the relative error with no negative number; None where there are too few
    micro-batches, or they are all alike.
    """
    known_N = np.isfinite(ms_N) & (ms_N > 0)
    terms_NK = np.stack([np.ones(ms_N.size), tokens_N, squares_N], axis=1)[known_N]
    ms_N = ms_N[known_N]
    if ms_N.size < FEWEST or np.ptp(terms_NK[:, 2]) == 0:
        return None
    parts_K = _not_negative(terms_NK, ms_N, np.ones(ms_N.size, np.bool_))
    error_N = np.abs(ms_N / (terms_NK @ parts_K) - 1)
    kept_N = error_N <= _OUTLIER * np.median(error_N)
    parts_K = _not_negative(terms_NK, ms_N, kept_N)
    error = float(np.median(np.abs(ms_N / (terms_NK @ parts_K) - 1)))
    fixed, token, square = parts_K.tolist()
    return CostModel(fixed, token, square, error, ms_N.size)


def _not_negative(terms_NK: Floats, ms_N: Floats, kept_N: Bools) -> Floats:
    """The best numbers of at least 0, by trying which of them are 0."""
    relative_NK = terms_NK[kept_N] / ms_N[kept_N, None]
    scale_K = relative_NK.max(axis=0)
    scale_K[scale_K == 0] = 1.0
    best_K, least = np.zeros(3), np.inf
    for num in (1, 2, 3):
        for used in map(list, combinations(range(3), num)):
            scaled_NK = relative_NK[:, used] / scale_K[used]
            found = np.linalg.lstsq(scaled_NK, np.ones(len(scaled_NK)), rcond=None)[0]
            left = float(np.square(scaled_NK @ found - 1).sum())
            if (found >= 0).all() and (found > 0).any() and left < least:
                best_K, least = np.zeros(3), left
                best_K[used] = found / scale_K[used]
    return best_K
