"""A prompt on all ranks of a job or on none: told to all of them first, then to go."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from typing import Any

from app.live.connected_ranks import LiveRanks
from app.live.first_step import first_step
from ingest.errors import UserError
from trace_hooks.protocol.prompts import PROMPT, Prompt, Word


async def begin_prompt(ranks: LiveRanks, name: str, value: Any) -> dict[str, Any]:
    """Prompt the model of a run: {"id", "step", "acks", "silent"}, `step` None where it won't run.

    Every rank takes part in the forwards, so all have to be connected and to take it. Raises
    UserError, and ValueError for what is no prompt.
    """
    if not isinstance(value, Mapping) or "id" in value or "step" in value:
        raise ValueError("a prompt is an object with a text; its id and step are the server's")
    asked = Prompt.from_json({**value, "id": f"p{secrets.token_hex(4)}"})
    run = ranks.run(name)
    connected = [one for one in run.connected if one.hello.attempt == run.newest_attempt]
    expected = max((one.hello.world_size for one in connected), default=0)
    if not connected or len(connected) < expected:
        raise UserError(
            f"{len(connected)} of {expected} ranks are connected; a prompt takes all of them"
            if expected
            else f"no rank of {name} is connected any more; nothing can be prompted"
        )
    step = first_step(connected)
    told = await ranks.command(name, PROMPT, {**asked.to_json(), "step": step}, None)
    if told["silent"] or not all(ack["ok"] for ack in told["acks"]):
        await ranks.command(name, PROMPT, Word(asked.id, False).to_json(), None)
        return {"id": asked.id, "step": None, "acks": told["acks"], "silent": told["silent"]}
    went = await ranks.command(name, PROMPT, Word(asked.id, True).to_json(), None)
    return {"id": asked.id, "step": step, "acks": went["acks"], "silent": went["silent"]}
