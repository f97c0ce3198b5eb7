"""Runs a prompt on all ranks of a job or on none: first sent to all of them, then started."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from typing import Any

from app.live.connected_ranks import ConnectedRanks
from app.live.first_step import first_step
from ingest.errors import UserError
from trace_hooks.protocol.prompts import PROMPT, Prompt, Word


async def begin_prompt(ranks: ConnectedRanks, name: str, value: Any) -> dict[str, Any]:
    """Prompt the model of a run: {"id", "step", "acks", "silent"}, `step` None if it will not run.

    Every rank takes part in the forwards, so all must be connected and accept it. Raises UserError,
    and ValueError for an invalid prompt.
    """
    if not isinstance(value, Mapping) or "id" in value or "step" in value:
        raise ValueError("a prompt is an object with a text; the server sets its id and step")
    prompt = Prompt.from_json({**value, "id": f"p{secrets.token_hex(4)}"})
    run = ranks.run(name)
    connected = [rank for rank in run.connected if rank.hello.attempt == run.newest_attempt]
    expected = max((rank.hello.world_size for rank in connected), default=0)
    if not connected or len(connected) < expected:
        raise UserError(
            f"{len(connected)} of {expected} ranks are connected; a prompt needs all of them"
            if expected
            else f"no rank of {name} is connected any more, so nothing can be prompted"
        )
    step = first_step(connected)
    offered = await ranks.command(name, PROMPT, {**prompt.to_json(), "step": step}, None)
    if offered["silent"] or not all(ack["ok"] for ack in offered["acks"]):
        await ranks.command(name, PROMPT, Word(prompt.id, False).to_json(), None)
        return {"id": prompt.id, "step": None, "acks": offered["acks"], "silent": offered["silent"]}
    started = await ranks.command(name, PROMPT, Word(prompt.id, True).to_json(), None)
    return {"id": prompt.id, "step": step, "acks": started["acks"], "silent": started["silent"]}
