"""Perturbations: all ranks accept one, or none keeps it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from app.live.commands import layers_of, perturb
from app.live.connected_rank import Ack, ConnectedRank, Hello

REQUEST = {"kind": "gaussian", "target": "weights", "layer": 1, "steps": [5, 9], "strength": 0.1}


def connected(*layers: list[int] | None, world_size: int = 2) -> list[ConnectedRank]:
    whats = [{} if own is None else {"layers": own} for own in layers]
    return [
        ConnectedRank(Hello("job", 0, rank, world_size, what=what))
        for rank, what in enumerate(whats)
    ]


class Ranks:
    """Ranks that answer without a socket; `refusing` ones refuse to begin."""

    def __init__(self, *refusing: int) -> None:
        self.refusing = refusing
        self.commands: list[tuple[int, bool]] = []

    async def send(
        self, ranks: Sequence[ConnectedRank], _name: str, args: Any
    ) -> tuple[list[Ack], list[int]]:
        numbers = [rank.hello.rank for rank in ranks]
        self.commands += [(number, "end" in args) for number in numbers]
        return [Ack(0, number, number not in self.refusing, "") for number in numbers], []


def test_it_goes_to_the_ranks_that_have_its_layer() -> None:
    ranks = Ranks()
    answer = asyncio.run(perturb(REQUEST, connected([0], [1]), True, ranks.send))
    assert ranks.commands == [(1, False)]
    assert answer["taken_back"] is False


def test_what_one_rank_refuses_is_ended_on_the_others() -> None:
    ranks = Ranks(1)
    answer = asyncio.run(perturb(REQUEST, connected(None, None), True, ranks.send))
    assert ranks.commands == [(0, False), (1, False), (0, True)]
    assert answer["taken_back"] is True


def test_all_ranks_must_be_connected() -> None:
    with pytest.raises(ValueError, match="2 of 8 ranks are connected"):
        asyncio.run(perturb(REQUEST, connected([1], [1], world_size=8), True, Ranks().send))


def test_layers_are_those_that_a_rank_reports() -> None:
    reporting, silent = connected([3, 4], None)
    assert (layers_of(reporting), layers_of(silent)) == ([3, 4], [])
