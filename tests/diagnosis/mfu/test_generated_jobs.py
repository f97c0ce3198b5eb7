"""Generated jobs: a bubble with a closed form, and planted causes of more waiting."""

from __future__ import annotations

import pytest

from app.views.efficiency.mfu import Asked, decline_of, efficiency_of
from diagnosis.mfu.skew import GC, RANK, UNKNOWN
from ingest.run import open_run
from sample_traces.generate.faults import SyntheticFault
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


@pytest.mark.parametrize(
    ("faults", "cause", "ranks"),
    [
        (["gc_pauses,ms=4,from=60", "gc_pauses,ms=4,from=90", "gc_pauses,ms=4,from=120"], GC, None),
        (["slow_worker=5,x=1.15,from=80"], RANK, (5,)),
        (["launch_skew,ms=12,from=80"], UNKNOWN, ()),
    ],
    ids=["collections that grow", "slow worker", "launch skew without a recorded cause"],
)
def test_why_ranks_wait_longer(tmp_path, faults, cause, ranks):
    planted = tuple(SyntheticFault.parse(text) for text in faults)
    job = SyntheticJob(
        16, pp=2, tp=2, num_steps=150, num_microbatches=2, noise=0.3, seed=6, faults=planted
    )
    generate(job, tmp_path / "run")
    with open_run(tmp_path / "run") as run:
        change = decline_of(Asked(run, 0, 300.0))
    waits = [found for found in change.causes if found.kind in (GC, RANK, UNKNOWN)]
    assert [found.kind for found in waits] == [cause]
    assert ranks is None or waits[0].ranks == ranks
    assert "MFU fell " in change.sentence
