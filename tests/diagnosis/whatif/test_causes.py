"""Causes: the published traces, a seeded fault of each kind and its healthy twin."""

from __future__ import annotations

from typing import Any

import pytest

from diagnosis.detectors import KINDS
from diagnosis.whatif.analysis import prepare
from diagnosis.whatif.causes import Cause, causes
from diagnosis.whatif.operations import dense
from sample_traces.generate.straggler_trace import MegatronJob
from tests.whatif_traces import generated, needs_traces, published

SIZES: dict[str, Any] = {"pp": 4, "dp": 8, "num_microbatches": 8, "num_steps": 10}


def causes_of(**fault: Any) -> tuple[Cause, ...]:
    named_causes = causes(prepare(dense(*generated(MegatronJob(**SIZES | fault)))))
    assert all(cause.kind in KINDS for cause in named_causes)
    return named_causes


@needs_traces
@pytest.mark.parametrize(
    ("trial", "kinds", "stages", "ranks"),
    [
        ("AR", ["slow_worker"], (0,), (0,)),
        ("SE", ["sequence_imbalance", "slow_stage"], (), ()),
        ("ST", ["slow_stage"], (3,), ()),
    ],
)
def test_the_published_truth(
    trial: str, kinds: list[str], stages: tuple[int, ...], ranks: tuple[int, ...]
) -> None:
    named_causes = causes(prepare(dense(*published(trial))))
    assert [cause.kind for cause in named_causes] == kinds
    assert (named_causes[0].stages, named_causes[0].ranks) == (stages, ranks)


@pytest.mark.parametrize("seed", range(4))
def test_healthy_jobs_have_no_cause(seed: int) -> None:
    assert causes_of(seed=seed) == ()
    assert causes_of(seed=seed, pp=1, dp=2) == ()
    assert causes_of(seed=seed, pp=2, vpp=2, dp=1) == ()


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize(
    ("fault", "kind", "stages", "ranks"),
    [
        ({"slow": ((2, 5, 1.2),)}, "slow_worker", (2,), (21,)),
        ({"slow": tuple((1, dp, 1.3) for dp in range(8))}, "slow_stage", (1,), ()),
        ({"slow_links": ((1, 3, 20.0),)}, "slow_link", (1, 2), (11, 19)),
        ({"slow_links": ((3, 3, 20.0),), "vpp": 2}, "slow_link", (0, 3), (3, 27)),
        ({"slow_networks": ((0, 3.0),)}, "slow_dp_network", (0,), tuple(range(8))),
        ({"pause_s": 0.1}, "gc_pauses", (), ()),
        ({"spread": 0.25}, "sequence_imbalance", (), ()),
    ],
)
def test_a_seeded_fault_is_named_and_placed(
    fault: dict[str, Any], kind: str, stages: tuple[int, ...], ranks: tuple[int, ...], seed: int
) -> None:
    named_causes = causes_of(seed=seed, **fault)
    assert [(cause.kind, cause.stages, cause.ranks) for cause in named_causes] == [
        (kind, stages, ranks)
    ]
    assert named_causes[0].cost_s > 0
    assert named_causes[0].text


def test_two_causes_at_once() -> None:
    named_causes = causes_of(slow=((0, 1, 1.5), (3, 6, 1.3)), slow_links=((1, 3, 40.0),))
    assert {(c.kind, c.ranks) for c in named_causes} <= {
        ("slow_worker", (1,)),
        ("slow_worker", (30,)),
        ("slow_link", (11, 19)),
    }
    assert named_causes[0].ranks == (1,)


def test_a_slow_worker_of_two_replicas_is_no_slow_stage() -> None:
    named_causes = causes_of(pp=2, dp=2, slow=((1, 0, 1.6),))
    assert [(cause.kind, cause.ranks) for cause in named_causes] == [("slow_worker", (2,))]


def test_networks_slow_on_half_of_the_stages_are_no_stage() -> None:
    named_causes = causes_of(slow_networks=((0, 4.0), (1, 8.0)))
    assert {(cause.kind, cause.stages) for cause in named_causes} == {
        ("slow_dp_network", (0,)),
        ("slow_dp_network", (1,)),
    }


def test_what_costs_nothing_is_no_cause() -> None:
    """An inner stage is done long before the first one, and waits for it in the gradient norm."""
    assert causes_of(slow_networks=((2, 3.0),)) == ()


def test_the_dose_is_the_ratio_and_the_cost_is_what_the_fault_added() -> None:
    healthy = prepare(dense(*generated(MegatronJob(**SIZES))))
    slow = prepare(dense(*generated(MegatronJob(**SIZES, slow=((2, 5, 1.4),)))))
    (cause,) = causes(slow)
    assert cause.ratio == pytest.approx(1.4, rel=0.02)
    ends = [float((p.ops.end_OSD.max(axis=(0, 2))).mean()) for p in (healthy, slow)]
    assert cause.cost_s == pytest.approx(ends[1] - ends[0], rel=0.05)
