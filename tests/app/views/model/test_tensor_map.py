"""Maps of tensor statistics: pooled blocks and the keys of rows."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from app.views.model.tensor_map import Row, pooled, tensor_map
from ingest.run import open_run
from tests.runs_builder import T0, two_rank_run


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


def test_counts_that_no_float_holds_exactly_are_rounded(tmp_path: Path) -> None:
    builder = two_rank_run(tmp_path / "job")
    counts = {"count": 2**60, "sampled": 2**60, "zero_ratio": 0.0, "nonfinite": 2**53 + 1}
    builder.add("tensor_stats", 0, 1, ts_ns=T0, tensor="residual", layer=0, name="layers.0",
                shard="", microbatch=-1, chunk=-1, log2_counts=[0] * 64, **counts)  # fmt: skip
    builder.publish()
    with open_run(builder.folder) as run:
        found = tensor_map(run, "residual", None, None)
    assert found.values["nonfinite"].tolist() == [[2.0**53]]
