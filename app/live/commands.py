"""Sends perturbations to ranks; either all of them accept one or none keeps it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from app.live.connected_rank import Ack, ConnectedRank
from app.live.first_step import with_steps
from trace_hooks.protocol.perturbations import PERTURB, requested

Send = Callable[[Sequence[ConnectedRank], str, Any], Awaitable[tuple[list[Ack], list[int]]]]
"""(ranks, name of a command, its arguments) -> their answers, and the ranks without an answer."""


def layers_of(rank: ConnectedRank) -> list[int]:
    """Layers that a rank reports; empty if it reports none."""
    layers = rank.hello.what.get("layers")
    return [layer for layer in layers if type(layer) is int] if isinstance(layers, list) else []


async def perturb(
    args: Any, ranks: Sequence[ConnectedRank], by_layer: bool, send: Send
) -> dict[str, Any]:
    """Begin or end a perturbation on ranks; returns their answers. Raises ValueError, one sentence.

    `by_layer`: only on the ranks that have its layer, once all ranks of the job are connected.
    Ranks compute together: if one of them refuses the perturbation, it is ended on the others, and
    `taken_back` is true.
    """
    wanted = requested(with_steps(args, ranks))
    if isinstance(wanted, str):
        acks, silent = await send(ranks, PERTURB, {"end": wanted})
        return {**_answers(acks, silent), "args": {"end": wanted}, "taken_back": False}
    if by_layer:
        _require_all(ranks)
        having = [rank for rank in ranks if wanted.layer in (layers_of(rank) or (wanted.layer,))]
        ranks = having or ranks  # a rank without the layer answers which layers there are
    acks, silent = await send(ranks, PERTURB, wanted.to_json())
    is_partial = any(ack.ok for ack in acks) and (silent or not all(ack.ok for ack in acks))
    if is_partial:
        refused = {(ack.attempt, ack.rank) for ack in acks if not ack.ok}
        accepting = [rank for rank in ranks if rank.key not in refused]
        await send(accepting, PERTURB, {"end": wanted.id})
    return {**_answers(acks, silent), "args": wanted.to_json(), "taken_back": bool(is_partial)}


def _require_all(ranks: Sequence[ConnectedRank]) -> None:
    """Raise ValueError unless all ranks of the job are among these."""
    count = max(rank.hello.world_size for rank in ranks)
    if len(ranks) < count:
        raise ValueError(
            f"{len(ranks)} of {count} ranks are connected; ranks that compute together must be "
            "perturbed in the same way: wait for the others, or name the ranks you mean"
        )


def _answers(acks: list[Ack], silent: list[int]) -> dict[str, Any]:
    return {"acks": [ack.as_json() for ack in acks], "silent": silent}
