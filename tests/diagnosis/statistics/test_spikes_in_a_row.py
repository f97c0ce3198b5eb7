"""Long steps that one rank makes several times in a row."""

from __future__ import annotations

import numpy as np
import pytest

from diagnosis.statistics.spikes_in_a_row import spikes_in_a_row


@pytest.mark.filterwarnings("error")
def test_ranks_that_alternate_have_none() -> None:
    columns = np.arange(0, 160, 20)
    excess_RN = np.zeros((4, columns.size))
    excess_RN[0, ::2] = excess_RN[1, 1::2] = 50.0
    assert spikes_in_a_row(columns, excess_RN, excess_RN > 0) == []
