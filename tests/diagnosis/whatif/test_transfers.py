"""The own time of transfers: waiting is taken out."""

from __future__ import annotations

import pytest

from diagnosis.whatif.analysis import prepare, what_if
from diagnosis.whatif.graph import graph_of
from diagnosis.whatif.transfers import transfers
from tests.diagnosis.whatif.test_graph import PIPELINE, built, waits


def test_waiting_is_taken_out_and_computed_again() -> None:
    ops = built(PIPELINE)
    graph = graph_of(ops)
    own = transfers(ops, graph)[:, 0, 0]
    by_name = dict(zip(waits(ops, graph), own.tolist(), strict=True))
    assert by_name["forward-recv 1 0"] == pytest.approx(0.1)
    assert by_name["backward-recv 0 0"] == pytest.approx(0.1)
    assert by_name["optimizer-clip-main-grad 1 0"] == pytest.approx(0.1)
    assert by_name["backward-compute 0 0"] == pytest.approx(2.0)
    metrics = what_if(prepare(ops))
    assert metrics.T_s == metrics.T_base_s == pytest.approx(6.5)
    assert metrics.fidelity == pytest.approx(0, abs=1e-9)


def test_transfers_far_below_zero_count_as_zero_small_ones_are_kept() -> None:
    moved = {
        ("forward-recv", 1): (1.105, 1.205),
        ("backward-recv", 0): (4.3, 4.4),
        ("backward-compute", 0): (4.4, 6.2),
        ("forward-compute", 1): (1.21, 2.1),
    }
    late = [(optype, stage, *moved.get((optype, stage), at)) for optype, stage, *at in PIPELINE]
    ops = built(late)
    by_name = dict(zip(waits(ops, graph_of(ops)), transfers(ops, graph_of(ops)), strict=True))
    assert by_name["forward-send 0 0"][0, 0] == pytest.approx(-0.005)
    assert by_name["backward-send 1 0"][0, 0] == 0
