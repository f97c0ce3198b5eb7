"""Statistics of a synthetic job's tensors and attention as rows: who writes which, and values."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from sample_traces.generate.job import SyntheticJob, cell
from sample_traces.generate.tables.blocks import Block, Synthetic
from sample_traces.generate.tables.model_health import (
    GROUPS,
    LAYERS_PER_STAGE,
    NUM_HEADS,
    OUTPUTS,
)
from sample_traces.generate.tables.model_tables import model_tables
from tests.sample_traces.generate.generated import synthetic
from trace_hooks.schema import TABLES
from trace_hooks.sources.tensors.histograms import MAX_VALUES

LOOKS = [0, 2, 4]
FIRST_OF_STAGE = [0, 8]


@pytest.fixture(scope="module")
def whole() -> Synthetic:
    return synthetic(
        SyntheticJob(16, pp=2, tp=2, num_steps=5, num_microbatches=2, statistics=2, resumed_at=10)
    )


@pytest.fixture(scope="module")
def tables(whole: Synthetic) -> dict[str, pa.Table]:
    return model_tables(Block(whole, 0, 16), whole.health)


def test_the_first_rank_of_a_stage_writes_its_layers(
    whole: Synthetic, tables: dict[str, pa.Table]
) -> None:
    per_layer = {"tensor_stats": len(OUTPUTS) + 3 * len(GROUPS), "attention_stats": NUM_HEADS}
    for name, table in tables.items():
        assert table.schema == TABLES[name].schema
        assert table.num_rows == 2 * LAYERS_PER_STAGE * len(LOOKS) * per_layer[name]
        for row in table.to_pylist():
            stage, step = row["layer"] // LAYERS_PER_STAGE, row["step"] - 10
            assert (row["rank"], row["chunk"]) == (FIRST_OF_STAGE[stage], stage)
            assert step in LOOKS
            ended_ns = whole.times.ended[(step, *cell(whole.job, row["rank"]))]
            assert row["ts_ns"] == ended_ns - whole.clocks.offset_R[row["rank"]]


def test_a_block_writes_what_its_own_ranks_do(
    whole: Synthetic, tables: dict[str, pa.Table]
) -> None:
    blocks = [model_tables(Block(whole, *ends), whole.health) for ends in ((0, 3), (3, 8), (8, 16))]
    for name, table in tables.items():
        assert [block[name].num_rows for block in blocks] == [
            table.num_rows // 2,
            0,
            table.num_rows // 2,
        ]
        assert [row for block in blocks for row in block[name].to_pylist()] == table.to_pylist()


def test_rows_have_the_values_of_the_model(whole: Synthetic, tables: dict[str, pa.Table]) -> None:
    health = whole.health
    rows = {
        (row["layer"], row["name"], row["tensor"], row["step"] - 10): row
        for row in tables["tensor_stats"].to_pylist()
    }
    assert len(rows) == tables["tensor_stats"].num_rows
    for look in LOOKS:
        output = rows[1, "layers.1.mlp", "mlp", look]
        weight = rows[3, "layers.3.attention", "weight", look]
        gradient = rows[3, "layers.3.attention", "gradient", look]
        update = rows[3, "layers.3.attention", "update", look]
        assert output["rms"] == pytest.approx(health.output_rms["mlp"][1, look])
        assert output["zero_ratio"] == pytest.approx(health.output_zero["mlp"][1, look])
        assert gradient["rms"] == pytest.approx(health.gradient_rms["attention"][3, look])
        assert weight["rms"] == pytest.approx(health.weight_rms["attention"][3, look])
        assert update["update_ratio"] == pytest.approx(update["rms"] / weight["rms"])
        assert weight["update_ratio"] is None
    for row in rows.values():
        assert row["absmax"] > row["rms"] > 0
        assert sum(row["log2_counts"]) == row["sampled"] == MAX_VALUES


def test_heads_have_their_own_values(whole: Synthetic, tables: dict[str, pa.Table]) -> None:
    found = np.full(whole.health.logit_LHS.shape, np.nan)
    for row in tables["attention_stats"].to_pylist():
        found[row["layer"], row["head"], row["step"] - 10] = row["max_logit"]
    assert np.isnan(found[..., [1, 3]]).all()
    np.testing.assert_allclose(found[..., LOOKS], whole.health.logit_LHS[..., LOOKS], rtol=1e-6)


def test_a_job_without_statistics_has_none() -> None:
    healthy = synthetic(SyntheticJob(4, num_steps=2))
    empty = model_tables(Block(healthy, 0, 4), healthy.health)
    assert {name: table.num_rows for name, table in empty.items()} == {
        "tensor_stats": 0,
        "attention_stats": 0,
    }
