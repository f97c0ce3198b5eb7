"""A block of ranks of a synthetic job: its cells, its groups, its part of every array."""

from __future__ import annotations

import numpy as np
import pytest

from sample_traces.generate.faults import SyntheticFault
from sample_traces.generate.job import SyntheticJob, cell
from sample_traces.generate.tables.blocks import Block, Synthetic
from tests.sample_traces.generate.generated import synthetic
from trace_hooks.sources.communication.process_groups import group_id

JOB = SyntheticJob(16, pp=2, tp=2, num_steps=3, num_microbatches=2)


@pytest.fixture(scope="module")
def whole() -> Synthetic:
    return synthetic(JOB)


def members(rank: int, axis: str) -> list[int]:
    """Ranks that differ from a rank along the axis only; all of the world."""
    others = [name for name in ("pp", "dp", "tp") if axis not in (name, "world")]
    own = JOB.layout.coords(rank)
    if axis == "world":
        return list(range(16))
    return [r for r in range(16) if all(JOB.layout.coords(r)[o] == own[o] for o in others)]


@pytest.mark.parametrize(("first", "last"), [(0, 16), (3, 11)])
def test_ranks_have_the_cells_and_groups_of_the_layout(
    whole: Synthetic, first: int, last: int
) -> None:
    block = Block(whole, first, last)
    cells = zip(block.p.tolist(), block.d.tolist(), block.t.tolist(), strict=True)
    assert list(cells) == [cell(JOB, rank) for rank in range(first, last)]
    for axis in ("tp", "dp", "pp", "world"):
        ordinal = int(axis == "world")
        ids = [group_id(members(rank, axis), ordinal) for rank in range(first, last)]
        assert block.groups[axis].tolist() == ids
        assert block.axis(axis)[0] == len(members(first, axis))


def test_a_group_of_all_ranks_along_an_axis_is_not_the_world() -> None:
    block = Block(synthetic(SyntheticJob(4, num_steps=1)), 0, 4)
    assert len(set(block.groups["dp"].tolist())) == len(set(block.groups["world"].tolist())) == 1
    assert block.groups["dp"][0] != block.groups["world"][0]


def test_a_block_has_its_part_of_every_array(whole: Synthetic) -> None:
    block = Block(whole, 3, 11)
    ranks_SPDT = np.broadcast_to(np.arange(16).reshape(2, 4, 2), (3, 2, 4, 2))
    assert block.of(ranks_SPDT).tolist() == [list(range(3, 11))] * 3
    assert block.gc_ns().shape == (2, 3, 8)  # micro-batches, steps, ranks
    assert block.microbatch().tolist() == [[[0]], [[1]]]
    share = block.cpu_share(3)
    assert share.shape == (1, 1, 3, 8)
    p, d, t = cell(JOB, 5)
    assert share[0, 0, 1, 2] == 1 / whole.durations.wall_per_cpu_SPDT[1, p, d, t]
    assert block.rows("spans").offset_R is whole.clocks.offset_R


def test_a_job_ends_with_its_last_step_or_where_it_began(whole: Synthetic) -> None:
    assert Block(whole, 0, 1).end_ns() == whole.times.ended.max() > whole.created_ns
    dead = SyntheticFault.parse("dead_rank=5,from=0")
    job = SyntheticJob(16, pp=2, tp=2, num_steps=3, num_microbatches=2, faults=(dead,))
    assert Block(synthetic(job), 0, 1).end_ns() == 10**9
