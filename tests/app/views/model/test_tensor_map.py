"""Maps of tensor statistics: pooled blocks and the keys of rows."""

from __future__ import annotations

import numpy as np

from app.views.model.tensor_map import Row, pooled


def test_the_worst_of_a_block_is_what_the_statistic_fears() -> None:
    value_RS = np.array([[1.0, -3.0, np.nan], [2.0, 0.5, np.nan]], dtype=np.float32)
    edges = np.array([0, 2]), np.array([0, 2, 3])
    for worst, wanted in (("max", 2.0), ("min", -3.0), ("size", -3.0)):
        result = pooled(value_RS, worst, *edges)
        assert result[0, 0] == wanted
        assert np.isnan(result[0, 1])


def test_rows_have_keys_of_their_own() -> None:
    assert Row(3, "model.layers.1.mlp").key == "3.mlp"
    assert Row(3, "layers.3").key == "3"
    assert Row(0, "h.0.attn", 5).key == "0.h5"
    assert Row(-1, "lm_head").key == "-1.lm_head"
