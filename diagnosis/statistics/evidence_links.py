"""Where a finding's evidence leads: the steps a question is asked for, the lanes to look at."""

from __future__ import annotations

from typing import Any

from diagnosis.statistics.rank_tables import Ranks
from diagnosis.statistics.shared_location import pipeline_ranks

Params = tuple[tuple[str, int | float | str], ...]
View = tuple[tuple[str, Any], ...]


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
    """The timeline of the pipeline group of one row's rank."""
    return timeline_view(attempt, int(ranks.rank_R[row]), pipeline_ranks(ranks, row), steps)


def first_two(first: int, last: int) -> tuple[int, int]:
    """The first two steps of an episode, or its only one: enough to see what is wrong."""
    return first, min(first + 1, last)
