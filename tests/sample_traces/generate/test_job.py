"""Sizes of a synthetic job check themselves."""

from __future__ import annotations

import pytest

from sample_traces.generate.job import MAX_RANKS, SyntheticJob


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ({"num_ranks": 6, "pp": 4}, "give a multiple of 4"),
        ({"num_ranks": 0}, "num_ranks is 0; give a whole number from 1"),
        ({"num_ranks": 2 * MAX_RANKS}, f"give at most {MAX_RANKS}"),
        ({"num_ranks": 8, "pp": 2, "chunks": 2}, "2 chunks need 3 stages"),
        ({"num_ranks": 8, "pp": 4, "chunks": 2, "num_microbatches": 6}, "that 4 divides"),
        ({"num_ranks": 8, "pace": -1.0}, "give a number above 0"),
    ],
)
def test_a_wrong_size_has_its_remedy(sizes: dict[str, float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        SyntheticJob(**sizes)  # type: ignore[arg-type]
