"""The step at which ranks begin something together: one that none of them has begun."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from app.live.connected_rank import ConnectedRank
from trace_hooks.protocol.capture_request import COMMAND, read_request
from trace_hooks.protocol.perturbations import MAX_WINDOW

AHEAD_S = 3.0
"""A rank's last known step is up to a heartbeat (1 s) old, and a command takes time to arrive."""
AHEAD_STEPS = 2
"""Extra steps: ranks may be a step apart, and one may begin a step at this very moment."""


def first_step(ranks: Sequence[ConnectedRank]) -> int:
    """The first step that no rank will have begun when a command arrives."""
    newest = max(rank.step for rank in ranks)
    steps_per_s = max(rank.steps_per_s for rank in ranks)
    return max(0, newest) + AHEAD_STEPS + math.ceil(AHEAD_S * steps_per_s)


def with_first_step(
    args: Any, ranks: Sequence[ConnectedRank], command: str = COMMAND
) -> dict[str, Any]:
    """Arguments of a request to record steps with the first one filled in; raises ValueError."""
    request = read_request(args, command)
    if request.first is not None:
        return request.to_json()
    return request.to_json() | {"from": first_step(ranks)}


def with_steps(args: Any, ranks: Sequence[ConnectedRank]) -> Any:
    """Arguments of a perturbation; `num_steps` instead of `steps` means: as soon as possible.

    Raises ValueError for an invalid number of steps; the caller checks everything else.
    """
    if not isinstance(args, Mapping) or "num_steps" not in args:
        return args
    count = args["num_steps"]
    if "steps" in args or type(count) is not int or not 1 <= count <= MAX_WINDOW:
        raise ValueError(f"num_steps is {str(count)[:40]}; give 1 to {MAX_WINDOW}, without steps")
    first = first_step(ranks)
    rest = {name: value for name, value in args.items() if name != "num_steps"}
    return rest | {"steps": [first, first + count - 1]}
