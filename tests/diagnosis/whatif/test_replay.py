"""The replay against a plain one: one scenario and one dp rank at a time, by recursion."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from diagnosis.whatif import replay
from diagnosis.whatif.analysis import Prepared, prepare, what_if
from diagnosis.whatif.graph import Node
from diagnosis.whatif.operations import Floats, dense
from diagnosis.whatif.optypes import reported_as
from sample_traces.generate.straggler_trace import MegatronJob
from tests.whatif_traces import generated

JOBS = (
    MegatronJob(pp=1, dp=3, num_microbatches=2, num_steps=3, slow=((0, 1, 1.5),)),
    MegatronJob(pp=2, dp=1, num_microbatches=4, num_steps=2, slow=((1, 0, 1.3),)),
    MegatronJob(pp=4, dp=3, num_microbatches=4, num_steps=2, slow=((2, 1, 1.5),)),
    MegatronJob(pp=2, dp=2, vpp=2, num_microbatches=4, num_steps=3, slow=((0, 1, 1.4),)),
)


def prepared(job: MegatronJob) -> Prepared:
    return prepare(dense(*generated(job)))


def plain_step_s(one: Prepared, own_OD: Floats) -> float:
    """Latest end of one step by recursion over its dependencies."""
    node_of: dict[int, Node] = {op: node for node in one.graph.nodes for op in node.ops}
    num_dp = own_OD.shape[1]

    @cache
    def begin(op: int, dp: int) -> float:
        return max((end(other, dp) for other in one.graph.waits_O[op]), default=0.0)

    @cache
    def end(op: int, dp: int) -> float:
        node = node_of[op]
        if node.is_local:
            return begin(op, dp) + float(own_OD[op, dp])
        lanes = range(num_dp) if node.over_dp else [dp]
        return max(begin(o, d) for o in node.ops for d in lanes) + float(own_OD[op, dp])

    return max(end(op, dp) for op in one.graph.ends for dp in range(num_dp))


def plain(one: Prepared, is_real: np.ndarray) -> float:
    """Mean step time with real times where `is_real` (ops, dp ranks), ideal ones elsewhere."""
    ideal_OD = np.broadcast_to(one.ideal_O[:, None], is_real.shape)
    steps = [
        plain_step_s(one, np.where(is_real, one.own_OSD[:, at], ideal_OD))
        for at in range(one.own_OSD.shape[1])
    ]
    return float(np.mean(steps))


@pytest.mark.parametrize("job", JOBS, ids=str)
def test_every_scenario_is_what_a_plain_replay_gives(job: MegatronJob) -> None:
    one = prepared(job)
    ops, metrics = one.ops, what_if(one)
    shape = (len(ops.type_O), job.dp)
    none, every = np.zeros(shape, bool), np.ones(shape, bool)
    T, T_ideal = plain(one, every), plain(one, none)
    assert metrics.T_s == pytest.approx(T, rel=1e-12)
    assert metrics.T_ideal_s == pytest.approx(T_ideal, rel=1e-12)
    names = np.array([reported_as(ops.optypes[code]) for code in ops.type_O])
    for name, slowdown in metrics.S_t.items():
        chosen = np.broadcast_to((names == name)[:, None], shape)
        assert slowdown * T_ideal == pytest.approx(plain(one, chosen), rel=1e-12), name
    for stage, slowdown in enumerate(metrics.S_stage):
        chosen = np.broadcast_to((ops.stage_O == stage)[:, None], shape)
        assert slowdown * T_ideal == pytest.approx(plain(one, chosen), rel=1e-12)
    for dp, slowdown in enumerate(metrics.S_dp):
        chosen = none.copy()
        chosen[:, dp] = True
        assert slowdown * T_ideal == pytest.approx(plain(one, chosen), rel=1e-12)
    fixed = every.copy()
    for rank in metrics.M_W_ranks:
        stage, dp = np.argwhere(ops.rank_PD == rank)[0]
        fixed[ops.stage_O == stage, dp] = False
    assert pytest.approx((T - plain(one, fixed)) / (T - T_ideal), rel=1e-9) == metrics.M_W
    if job.pp == 1:
        assert metrics.M_S is None
    else:
        others = np.broadcast_to((ops.stage_O < job.pp - 1)[:, None], shape)
        assert pytest.approx((T - plain(one, others)) / (T - T_ideal), rel=1e-9) == metrics.M_S


def test_blocks_of_steps_give_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    one = prepared(JOBS[2])
    whole = what_if(one)
    monkeypatch.setattr(replay, "_BLOCK_BYTES", 1)
    in_blocks = what_if(one)
    assert (in_blocks.S, in_blocks.S_t, in_blocks.S_dp) == (whole.S, whole.S_t, whole.S_dp)
