"""What stragglers cost, of generated jobs with a known slow cell and without any."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from diagnosis.whatif.analysis import prepare, what_if
from diagnosis.whatif.operations import NotAnswerable, dense
from sample_traces.generate.straggler_trace import MegatronJob
from tests.diagnosis.whatif.test_replay import JOBS, prepared
from tests.whatif_traces import generated


@pytest.mark.parametrize("job", JOBS, ids=str)
def test_the_slow_cell_is_the_hottest(job: MegatronJob) -> None:
    metrics = what_if(prepared(job))
    ((stage, dp, _),) = job.slow
    assert np.unravel_index(np.argmax(metrics.S_w_PD), metrics.S_w_PD.shape) == (stage, dp)
    assert metrics.M_W_ranks == (int(metrics.rank_PD[stage, dp]),)
    assert metrics.S > 1.05
    assert metrics.M_W is not None
    assert metrics.M_W > 0.8


@pytest.mark.parametrize("job", JOBS, ids=str)
def test_a_healthy_job_loses_nothing(job: MegatronJob) -> None:
    healthy = MegatronJob(
        job.pp, job.dp, job.tp, job.vpp, job.num_microbatches, job.num_steps, seed=5
    )
    metrics = what_if(prepared(healthy))
    assert metrics.S < 1.03
    assert metrics.S_w_PD.max() < 1.03
    assert 0 <= metrics.fidelity < 0.01  # up to 2 ms of uneven begin are no part of the replay


def test_a_job_that_takes_no_time_is_refused() -> None:
    table, sizes = generated(JOBS[0])
    at = table.column_names.index("duration_s")
    nothing = pa.array(np.zeros(table.num_rows, np.float32))
    with pytest.raises(NotAnswerable, match="no time to compare"):
        what_if(prepare(dense(table.set_column(at, "duration_s", nothing), sizes)))


def test_equal_workers_are_chosen_by_rank() -> None:
    one = prepared(MegatronJob(pp=2, dp=40, num_microbatches=2, num_steps=1))
    metrics = what_if(one)
    assert len(metrics.M_W_ranks) == 3  # 3 % of 80, rounded up
    worst = sorted(metrics.S_w.items(), key=lambda item: (-item[1], item[0]))[:3]
    assert metrics.M_W_ranks == tuple(sorted(rank for rank, _ in worst))
