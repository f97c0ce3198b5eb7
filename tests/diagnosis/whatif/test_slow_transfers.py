"""Slow links and networks of generated jobs."""

from __future__ import annotations

import pytest

from diagnosis.whatif.slow_transfers import links, networks
from sample_traces.generate.straggler_trace import MegatronJob
from tests.diagnosis.whatif.test_replay import prepared

SIZES = {"pp": 4, "dp": 4, "num_microbatches": 4, "num_steps": 4}


def test_a_slow_link_is_found_between_its_two_stages() -> None:
    (link,) = links(prepared(MegatronJob(**SIZES, slow_links=((1, 2, 20.0),))))
    assert link.kind == "slow_link"
    assert link.stages == (1, 2)
    assert "of the other links" in link.text
    assert link.ratio > 5


def test_a_slow_network_is_that_of_its_stage() -> None:
    (network,) = networks(prepared(MegatronJob(**SIZES, slow_networks=((2, 3.0),))))
    assert network.kind == "slow_dp_network"
    assert network.stages == (2,)
    assert network.ratio == pytest.approx(3.0, rel=0.2)


def test_a_healthy_job_has_none() -> None:
    healthy = prepared(MegatronJob(**SIZES))
    assert [*links(healthy), *networks(healthy)] == []
