"""The waterfall of generated jobs whose bubble has a closed form."""

from __future__ import annotations

import pytest

from app.views.efficiency.mfu import Asked, efficiency_of
from ingest.run import open_run
from sample_traces.generate.job import SyntheticJob
from sample_traces.generate.tables.write import generate


@pytest.mark.parametrize(("stages", "microbatches"), [(2, 4), (4, 8)])
def test_the_pipeline_bubble_is_that_of_the_schedule(tmp_path, stages, microbatches):
    job = SyntheticJob(
        2 * stages, pp=stages, num_steps=8, num_microbatches=microbatches, noise=0.1, seed=5
    )
    generate(job, tmp_path / "run")
    with open_run(tmp_path / "run") as run:
        fall = efficiency_of(Asked(run, 0, 300.0), (1, 7)).waterfall
    share = {bar.name: bar.share for bar in fall.bars}
    in_pipeline = share["pipeline"] + share["compute"] + share.get("moving_pp", 0.0) + fall.mfu
    bubble = (stages - 1) / (microbatches + stages - 1)  # 1F1B, equal stages
    assert share["pipeline"] / in_pipeline == pytest.approx(bubble, rel=0.1)
    assert fall.total == pytest.approx(1)
