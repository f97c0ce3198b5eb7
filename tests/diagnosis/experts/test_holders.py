"""Which ranks hold experts, on places made by hand."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from diagnosis.experts.holders import Holders, named_holders
from diagnosis.experts.load import LayerLoad

NAME = "mlp.router"


def places(*rows: tuple[int, int, list[int]]) -> pa.Table:
    """Rows of expert_places: layer, EP rank of two experts, global ranks."""
    return pa.Table.from_pylist(
        [
            {"layer": layer, "name": NAME, "ep": ep, "first_expert": 2 * ep, "local_experts": 2,
             "ranks": ranks, "num_ranks": len(ranks)}
            for layer, ep, ranks in rows
        ]
    )  # fmt: skip


def layer(number: int) -> LayerLoad:
    return LayerLoad(number, NAME, 1, np.arange(1), np.ones((1, 4)), np.zeros(1))


def test_every_holder_is_known_however_many_there_are() -> None:
    holders = Holders(places((0, 0, list(range(0, 400, 2))), (0, 1, list(range(1, 400, 2)))))
    assert holders.ranks(layer(0), 3) == tuple(range(1, 400, 2))
    assert named_holders(holders.ranks(layer(0), 3)).endswith("15 and 192 more")
    assert holders.fellows(7) == set(range(1, 400, 2)) - {7}


def test_fellows_hold_the_same_experts_of_every_layer() -> None:
    holders = Holders(
        places((0, 0, [0, 2]), (0, 1, [1, 3]), (1, 0, [0, 3]), (1, 1, [1, 2]), (4, 0, [1, 3, 5]))
    )
    assert holders.fellows(0) == set()
    assert holders.fellows(5) == {1, 3}
    assert holders.fellows(9) == set()
    assert [holders.num_layers(rank) for rank in (0, 1, 5, 9)] == [2, 3, 1, 0]


def test_a_layer_that_is_not_divided_has_no_holders() -> None:
    holders = Holders(places((4, 0, [0, 1, 2, 3])))
    assert holders.ep_ranks(layer(4)) == []
    assert holders.ranks(layer(4), 1) == ()
