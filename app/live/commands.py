"""Perturbations by way of the server: to whom they go, and all take it or none does."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from app.live.connected_rank import Ack, LiveRank
from app.live.first_step import with_steps
from trace_hooks.protocol.perturbations import PERTURB, requested

Send = Callable[[Sequence[LiveRank], str, Any], Awaitable[tuple[list[Ack], list[int]]]]
"""(ranks, name of a command, its arguments) -> their answers, and the ranks that gave none."""


def layers_of(rank: LiveRank) -> list[int]:
    """Layers that a rank says it has; none where it says nothing."""
    told = rank.hello.what.get("layers")
    return [layer for layer in told if type(layer) is int] if isinstance(told, list) else []


async def perturb(
    args: Any, ranks: Sequence[LiveRank], by_layer: bool, send: Send
) -> dict[str, Any]:
    """Begin or end a perturbation on ranks, and what they say. Raises ValueError, one sentence.

    `by_layer`: on those alone that have its layer, once all ranks of the job are connected. Ranks
    compute together: a perturbation that one of them does not take is ended again on the others,
    which `taken_back` tells.
    """
    wanted = requested(with_steps(args, ranks))
    if isinstance(wanted, str):
        acks, silent = await send(ranks, PERTURB, {"end": wanted})
        return {**_told(acks, silent), "args": {"end": wanted}, "taken_back": False}
    if by_layer:
        _require_all(ranks)
        having = [rank for rank in ranks if wanted.layer in (layers_of(rank) or (wanted.layer,))]
        ranks = having or ranks  # who has none says which there are
    acks, silent = await send(ranks, PERTURB, wanted.to_json())
    is_partial = any(ack.ok for ack in acks) and (silent or not all(ack.ok for ack in acks))
    if is_partial:
        refused = {(ack.attempt, ack.rank) for ack in acks if not ack.ok}
        took = [rank for rank in ranks if rank.key not in refused]
        await send(took, PERTURB, {"end": wanted.id})
    return {**_told(acks, silent), "args": wanted.to_json(), "taken_back": bool(is_partial)}


def _require_all(ranks: Sequence[LiveRank]) -> None:
    """Raise ValueError unless all ranks of the job are among these."""
    count = max(rank.hello.world_size for rank in ranks)
    if len(ranks) < count:
        raise ValueError(
            f"{len(ranks)} of {count} ranks are connected; ranks that compute together must be "
            "perturbed alike: wait for the others, or say which ranks you mean"
        )


def _told(acks: list[Ack], silent: list[int]) -> dict[str, Any]:
    return {"acks": [ack.as_json() for ack in acks], "silent": silent}
