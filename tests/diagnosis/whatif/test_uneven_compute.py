"""Pauses in forwards, and what only looks like them."""

from __future__ import annotations

import pyarrow.compute as pc
import pytest

from diagnosis.whatif.analysis import prepare
from diagnosis.whatif.operations import dense
from diagnosis.whatif.optypes import BACKWARD
from diagnosis.whatif.uneven_compute import pauses
from sample_traces.generate.straggler_trace import MegatronJob
from tests.diagnosis.whatif.test_replay import prepared
from tests.whatif_traces import generated


def test_pauses_are_found_on_other_cells_in_each_step() -> None:
    paused = pauses(prepared(MegatronJob(2, 4, num_steps=20, pause_s=0.1)))
    assert paused is not None
    assert paused.num_cells > 2
    assert paused.pause_NSD.max() == pytest.approx(0.1, rel=0.2)
    assert "cells (stage, dp rank) pause" in paused.text


@pytest.mark.parametrize(
    "job",
    [
        MegatronJob(2, 4, num_steps=20),
        MegatronJob(2, 4, num_steps=20, slow=((0, 1, 1.5),)),
        MegatronJob(2, 4, num_steps=3, pause_s=0.1),
    ],
    ids=["healthy", "a slow cell", "too few steps"],
)
def test_without_pauses_there_are_none(job: MegatronJob) -> None:
    assert pauses(prepared(job)) is None


@pytest.mark.filterwarnings("error")
def test_without_backwards_nothing_tells_that_only_forwards_pause() -> None:
    table, sizes = generated(MegatronJob(1, 4, num_steps=20, pause_s=0.1))
    forwards = table.filter(pc.not_equal(table["optype"], BACKWARD))
    assert pauses(prepare(dense(forwards, sizes))) is None
