"""The step with which ranks are to begin something together: one that none of them has begun."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from app.live_rank import LiveRank
from trace_hooks.capture_request import read_request

AHEAD_S = 3.0
"""What a rank is known to have done is a heartbeat (1 s) old, and a command takes its way."""
AHEAD_STEPS = 2
"""So many more: ranks may be a step apart, and one may begin at this very moment."""


def with_first_step(args: Any, ranks: Sequence[LiveRank]) -> dict[str, Any]:
    """Arguments of a capture of kernels whose first step is told; raises ValueError."""
    request = read_request(args)
    if request.first is not None:
        return request.to_json()
    newest = max(rank.step for rank in ranks)
    steps_per_s = max(rank.steps_per_s for rank in ranks)
    ahead = AHEAD_STEPS + math.ceil(AHEAD_S * steps_per_s)
    return request.to_json() | {"from": max(0, newest) + ahead}
