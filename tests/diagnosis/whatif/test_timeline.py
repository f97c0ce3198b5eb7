"""One step of a job, real and ideal, on some cells."""

from __future__ import annotations

import pytest

from diagnosis.whatif.operations import NotAnswerable
from diagnosis.whatif.timeline import replica, timeline
from tests.diagnosis.whatif.test_replay import JOBS, prepared


def test_the_timeline_of_a_step_that_is_not_there() -> None:
    one = prepared(JOBS[0])
    for step, dp in ((99, 0), (0, 3), (0, -1)):
        with pytest.raises(NotAnswerable, match="the steps are 0 to 2, the stages 0"):
            timeline(one, step, [(0, dp)])
    with pytest.raises(NotAnswerable, match="on no rank"):
        timeline(one, 0, [])


def test_the_timeline_shows_the_ideal_next_to_the_real() -> None:
    one = prepared(JOBS[2])
    slow = timeline(one, 0, replica(one, 1)).rows.to_pandas()
    compute = slow[(slow.stage == 2) & (slow.optype == "forward-compute")]
    real = (compute.end_s - compute.start_s).mean()
    ideal = (compute.ideal_end_s - compute.ideal_start_s).mean()
    assert real == pytest.approx(0.030, rel=0.05)  # 1.5 times the generator's 20 ms
    assert ideal == pytest.approx(0.020 * (11 + 1.5) / 12, rel=0.05)  # 1 of 12 cells is slow
    assert (slow["rank"].to_numpy() == one.ops.rank_PD[slow.stage, 1]).all()
    assert (slow["dp"] == 1).all()
    own = slow.replayed_end_s - slow.own_s
    assert (own >= slow.replayed_start_s - 1e-9).all()  # what lies before is waiting


def test_the_timeline_of_one_stage_goes_over_the_replicas() -> None:
    one = prepared(JOBS[2])
    cells = [(2, 1), (2, 0)]
    rows = timeline(one, 0, cells).rows.to_pandas()
    assert list(dict.fromkeys(zip(rows.stage, rows.dp, strict=True))) == cells
    whole = timeline(one, 0, replica(one, 1)).rows.to_pandas()
    alone = rows[rows.dp == 1].reset_index(drop=True)
    assert alone.equals(whole[whole.stage == 2].reset_index(drop=True))
