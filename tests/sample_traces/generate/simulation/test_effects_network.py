"""Which transfers cross hosts and switches, and that a slow host slows those alone."""

from __future__ import annotations

import numpy as np

from sample_traces.generate.faults import SyntheticFault
from sample_traces.generate.job import SyntheticJob
from sample_traces.generate.simulation.draw import draw
from sample_traces.generate.simulation.effects_network import across

JOB = SyntheticJob(32, pp=2, tp=2, num_steps=4, noise=0.0)


def test_what_reaches_a_host_is_the_same_from_both_ends() -> None:
    assert across(JOB, [0]).same_as(across(JOB, [0]))
    assert not across(JOB, [0]).same_as(across(JOB, [1]))


def test_a_slow_host_slows_only_what_reaches_it() -> None:
    fault = SyntheticFault.parse("slow_host=1,x=3")
    healthy = draw(JOB)
    slow = draw(SyntheticJob(32, pp=2, tp=2, num_steps=4, noise=0.0, faults=(fault,)))
    longer = slow.pp_forward_SPDT > healthy.pp_forward_SPDT
    assert longer.any()
    assert not longer.all()
    assert np.array_equal(slow.forward_MSPDT, healthy.forward_MSPDT)
