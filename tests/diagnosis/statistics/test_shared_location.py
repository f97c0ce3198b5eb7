"""What ranks have in common: a host, a replica or a stage."""

from __future__ import annotations

import numpy as np
import pytest

from diagnosis.statistics.rank_tables import Ranks, placed
from diagnosis.statistics.shared_location import (
    pipeline_ranks,
    place_of,
    shared_place,
    whole_host,
)
from tests.diagnosis.work_tables import tables
from trace_hooks.layout import ParallelLayout

LAYOUT = ParallelLayout.from_sizes(pp=2, dp=4, tp=2)


def ranks(known_layout: bool = True) -> Ranks:
    answers = tables(LAYOUT, 1, lambda rank, step: 1.0, ranks_per_host=4, known_layout=known_layout)
    return placed(np.arange(LAYOUT.world_size), answers["rank_places"])


def test_a_rank_has_its_host_and_coordinates() -> None:
    place = place_of(ranks(), 5)
    assert (place.rank, place.host) == (5, "node1")
    assert dict(place.coords) == {"pp": 0, "dp": 2, "tp": 1}
    assert place_of(ranks(known_layout=False), 5).coords == ()


@pytest.mark.parametrize(
    ("together", "name"),
    [
        ([4, 5, 6, 7, 9], "host node1"),
        ([0, 1, 2, 3, 4, 5, 6, 7], "host node1"),  # the smallest place that explains rank 5
        ([4, 5, 12, 13], "replica 2"),
        ([4, 5, 6], None),
        ([5], None),
    ],
)
def test_the_place_that_is_wholly_among_the_ranks(together: list[int], name: str | None) -> None:
    shared = shared_place(ranks(), 5, np.array(together))
    assert (shared[0] if shared else None) == name


@pytest.mark.parametrize(
    ("together", "rows"),
    [
        ([4, 5, 6, 7, 9], {4, 5, 6, 7}),
        ([4, 5, 6], set()),  # not all of them
        ([4, 5, 6, 7, 12, 13], set()),  # all of replica 2
        (list(range(8)), set()),  # all of stage 0
    ],
)
def test_a_whole_host_that_has_no_more_work_than_others(
    together: list[int], rows: set[int]
) -> None:
    assert whole_host(ranks(), 5, np.array(together)) == rows


def test_hosts_of_two_ranks_and_the_only_host_are_no_whole_hosts() -> None:
    for per_host in (2, 16):
        answers = tables(LAYOUT, 1, lambda rank, step: 1.0, ranks_per_host=per_host)
        of_job = placed(np.arange(16), answers["rank_places"])
        assert whole_host(of_job, 5, np.arange(4, 6)) == set()
    assert whole_host(ranks(known_layout=False), 5, np.arange(4, 8)) == {4, 5, 6, 7}


def test_a_whole_stage_over_several_hosts() -> None:
    answers = tables(LAYOUT, 1, lambda rank, step: 1.0, ranks_per_host=16)
    one_host = placed(np.arange(16), answers["rank_places"])
    shared = shared_place(one_host, 5, np.arange(8))
    assert shared == ("pipeline stage 0", set(range(8)))
    assert shared_place(one_host, 5, np.arange(16)) is not None  # still its stage, not the job


def test_the_pipeline_of_a_rank_in_order_of_the_stages() -> None:
    assert pipeline_ranks(ranks(), 13) == (5, 13)
    assert pipeline_ranks(ranks(known_layout=False), 13) == (13,)
