"""How long each state lasted in each step of each rank: intervals in, sums over sets of states out.

A state is the bits (kinds, modes and so on) of all that is going on at one moment. There are few
different ones, so that every sum is one product of matrices. Shape suffixes: C cells, E pieces of
time, B states, M sums.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from trace_hooks.step_sums.intervals import Bools, Ints, overlay

_AT_ONCE = 4_000_000
"""Pairs of cell and state summed at once, 8 bytes each."""


class StateTimes:
    """How long each state lasted in each of some cells; times are exact below 2^53 ns a cell."""

    def __init__(
        self, cell_N: Ints, begin_N: Ints, end_N: Ints, bits_N: Ints, num_cells: int
    ) -> None:
        """Lay the intervals of each cell over each other."""
        self._num_cells = num_cells
        self._cell_E, self._length_E, self._state_E, self.bits_B = overlay(
            cell_N, begin_N, end_N, bits_N
        )

    def having(self, bits: int) -> Bools:
        """States with any of these bits."""
        return np.asarray((self.bits_B & bits) != 0)

    def sums(self, selected: Mapping[str, Bools]) -> dict[str, Ints]:
        """Ns per cell of each selection of states."""
        num_states = self.bits_B.size
        is_in_BM = np.column_stack(list(selected.values())).astype(np.float64)
        sum_CM = np.empty((self._num_cells, is_in_BM.shape[1]), dtype=np.int64)
        cells_at_once = max(_AT_ONCE // num_states, 1)
        for low in range(0, self._num_cells, cells_at_once):
            high = min(low + cells_at_once, self._num_cells)
            some = slice(*np.searchsorted(self._cell_E, (low, high)))
            pair_E = (self._cell_E[some] - low) * num_states + self._state_E[some]
            time_CB = np.bincount(pair_E, self._length_E[some], (high - low) * num_states)
            sum_CM[low:high] = time_CB.reshape(-1, num_states) @ is_in_BM
        return {name: sum_CM[:, column] for column, name in enumerate(selected)}
