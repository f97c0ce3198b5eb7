"""Ranks agree through the store, or all end the prompt."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from torch import distributed as dist

from trace_hooks.sources.prompting import agreement as agreement_module
from trace_hooks.sources.prompting.agreement import STOP, Agreement


def met(proposals: list[Any], rounds: int = 1) -> list[list[dict[str, Any]]]:
    """Decisions of each rank; one without a proposal entry never comes."""
    store = dist.HashStore()
    world_size = len(proposals)

    def rank(number: int) -> list[dict[str, Any]]:
        own = Agreement(store, "p", number, world_size)
        return [own.meet(proposals[number]) for _ in range(rounds)]

    with ThreadPoolExecutor(world_size) as pool:
        coming = [n for n in range(world_size) if proposals[n] is not ...]
        return list(pool.map(rank, coming))


def test_all_ranks_get_one_of_the_proposals_each_time() -> None:
    first, *others = met([{"token": n} for n in range(3)], rounds=4)
    assert all(decision["token"] == decision["by"] for decision in first)
    assert others == [first, first]


def test_a_rank_without_a_proposal_follows() -> None:
    assert met([None, {"token": 5}]) == [[{"by": 1, "token": 5}]] * 2


def test_one_rank_stops_all() -> None:
    for decisions in met([{STOP: "it failed"}, None]):
        assert decisions == [{"by": 0, STOP: "it failed"}]


def test_a_rank_that_does_not_come_ends_the_prompt(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agreement_module, "MEET_S", 0.1)
    ((decision,),) = met([{"token": 1}, ...])
    assert decision[STOP] == "not all ranks came within 0.1 s"


def test_a_single_rank_needs_no_store() -> None:
    alone = Agreement(None, "p", 0, 1)
    assert alone.meet({"token": 1}) == {"by": 0, "token": 1}
    assert STOP in alone.meet(None)
