"""Where a finding's evidence leads: the steps a question is asked for, the lanes to look at."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from diagnosis.statistics.rank_tables import Ranks
from diagnosis.statistics.shared_location import pipeline_ranks

Params = tuple[tuple[str, int | float | str], ...]
View = tuple[tuple[str, Any], ...]
_MOST_TP_PEERS, _MOST_DP_PEERS = 2, 2


def question_params(first: int, last: int, attempt: int, **where: int | str) -> Params:
    """Parameters of a question about steps `first` to `last`; `where` narrows it further."""
    return (("step_min", first), ("step_max", last), *where.items(), ("attempt", attempt))


def timeline_view(attempt: int, rank: int, ranks: tuple[int, ...], steps: tuple[int, int]) -> View:
    """The timeline with the lanes of `ranks`, of which `rank` is selected."""
    return (
        ("page", "timeline"),
        ("attempt", attempt),
        ("rank", rank),
        ("ranks", ranks),
        ("steps", steps),
    )


def pipeline_view(ranks: Ranks, row: int, attempt: int, steps: tuple[int, int]) -> View:
    """The timeline of one row's rank among those that show what it does: who waits for it, and a
    peer that does the same work.
    """
    return timeline_view(attempt, int(ranks.rank_R[row]), _lanes(ranks, row), steps)


def _lanes(ranks: Ranks, row: int) -> tuple[int, ...]:
    """Neighbours in the pipeline, the rank, and its nearest peers; in order of stages, the rank
    before its peers. Where the layout is unknown: the rank and its nearest other rank.
    """
    rank = int(ranks.rank_R[row])
    if not ranks.has_roles:
        return (rank, *_nearest(ranks.rank_R.tolist(), rank, 1))
    stages = pipeline_ranks(ranks, row)
    position = stages.index(rank)
    peers = [
        peer
        for axis, most in (("tp", _MOST_TP_PEERS), ("dp", _MOST_DP_PEERS))
        for peer in _nearest(_along(ranks, row, axis), rank, most)
    ]
    return (*stages[:position][-1:], rank, *sorted(peers), *stages[position + 1 :][:1])


def _along(ranks: Ranks, row: int, axis: str) -> list[int]:
    """Ranks that differ from the row's on this axis alone, itself among them."""
    same_R = np.ones(ranks.rank_R.size, np.bool_)
    for other in {"pp", "dp", "cp", "tp"} - {axis}:
        same_R &= ranks.coords_R[other] == ranks.coords_R[other][row]
    return [int(rank) for rank in ranks.rank_R[same_R]]


def _nearest(others: Sequence[int], rank: int, most: int) -> list[int]:
    """The nearest numbers; of two that are equally near the lower one."""
    apart = sorted((other for other in others if other != rank), key=lambda o: (abs(o - rank), o))
    return apart[:most]


def first_two(first: int, last: int) -> tuple[int, int]:
    """The first two steps of an episode, or its only one: enough to see what is wrong."""
    return first, min(first + 1, last)
