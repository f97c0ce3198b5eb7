"""Generated StragglerAnalysis traces: schedule, schema, and times that closed forms give."""

from __future__ import annotations

import numpy as np
import pytest

from sample_traces.generate import straggler_trace as module
from sample_traces.generate.straggler_trace import MegatronJob, straggler_trace


def compute_span_s(job: MegatronJob) -> float:
    """First forward to last backward, mean over the steps."""
    rows = straggler_trace(job).to_pandas()
    rows = rows[rows.optype.isin(["forward-compute", "backward-compute"])]
    ends = (rows.start_ts + rows.duration).groupby(rows.step).max()
    return float((ends - rows.groupby("step").start_ts.min()).mean())


@pytest.mark.parametrize(
    ("pp", "vpp", "num_microbatches"),
    [(1, 1, 4), (2, 1, 8), (4, 1, 8), (4, 2, 8), (2, 4, 8), (8, 2, 16)],
)
def test_the_pipeline_is_as_long_as_its_closed_form(
    pp: int, vpp: int, num_microbatches: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """T = m (F + B) + (p - 1)(F + B) / v: equal stages, no transfer time."""
    monkeypatch.setattr(module, "WIRE_S", 0.0)
    job = MegatronJob(
        pp=pp, dp=1, vpp=vpp, num_microbatches=num_microbatches, num_steps=2, noise=0.0
    )
    both_s = module.FORWARD_S + module.BACKWARD_S
    expected_s = num_microbatches * both_s + (pp - 1) * both_s / vpp
    assert compute_span_s(job) == pytest.approx(expected_s, abs=0.0021)  # stages begin within 2 ms


def test_every_cell_and_step_has_the_same_operations() -> None:
    job = MegatronJob(pp=4, dp=3, tp=2, vpp=2, num_microbatches=8, num_steps=2)
    table = straggler_trace(job)
    rows = table.to_pandas()
    per_stage = rows.groupby(["step", "dp_rank", "stage"]).size().unstack()
    assert (per_stage.nunique() == 1).all()
    assert per_stage.iloc[0].tolist() == [16 * 6 + 9, 16 * 6 + 8, 16 * 6 + 8, 16 * 6 + 9]
    assert rows.start_ts.groupby(rows.step).min().tolist() == [0, 0]
    assert sorted(rows["rank"].unique()) == list(range(0, 24, 2))
    compute = rows[rows.optype == "forward-compute"]
    assert (compute.gmc == compute.mc * 4 + compute.stage).all()
    keys = ["step", "dp_rank", "stage", "optype"]
    for _, group in rows.sort_values("start_ts").groupby(keys, observed=True):
        assert (np.diff(group.seq_id) > 0).all()
    assert table.schema.field("start_ts").type == "float"


def test_equal_seeds_give_equal_traces() -> None:
    job = MegatronJob(pp=2, dp=2, num_steps=2)
    assert straggler_trace(job).equals(straggler_trace(job))
    assert not straggler_trace(job).equals(straggler_trace(MegatronJob(2, 2, num_steps=2, seed=2)))


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ({"pp": 0, "dp": 1}, "whole numbers from 1"),
        ({"pp": 4, "dp": 1, "vpp": 2, "num_microbatches": 6}, "a multiple of 4"),
        ({"pp": 1, "dp": 1, "vpp": 2}, "at least 2 stages"),
        ({"pp": 2, "dp": 1, "slow": ((2, 0, 1.5),)}, "is not in the job"),
    ],
)
def test_impossible_jobs_are_refused(sizes: dict[str, int], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        MegatronJob(**sizes)
