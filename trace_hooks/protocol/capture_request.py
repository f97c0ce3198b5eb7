"""Requests to capture kernels of some steps, or to publish their spans where that is not done in
every step: data, which the server checks and each rank checks again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

COMMAND, SPANS_COMMAND = "capture_kernels", "record_spans"
MAX_STEPS = {COMMAND: 50, SPANS_COMMAND: 1_000}
_FARTHEST = 1 << 53


@dataclass(frozen=True)
class CaptureRequest:
    """Record `steps` steps from step `first` on; None: from the next one of each rank."""

    steps: int
    first: int | None = None

    def to_json(self) -> dict[str, Any]:
        """The command's arguments."""
        return {"steps": self.steps, "from": self.first}


def read_request(value: Any, command: str = COMMAND) -> CaptureRequest:
    """The request in a command's arguments; raises ValueError, one sentence, for anything else."""
    if not isinstance(value, dict):
        raise ValueError(f'{command} takes an object such as {{"steps": 3}}')
    unknown = [str(name)[:40] for name in value if name not in ("steps", "from")]
    if unknown:
        raise ValueError(f"{command} has no {unknown[0]!r}; give steps and, if you like, from")
    steps, first, most = value.get("steps"), value.get("from"), MAX_STEPS[command]
    if type(steps) is not int or not 1 <= steps <= most:
        raise ValueError(f"{command}: steps is {str(steps)[:40]}; give 1 to {most}")
    if first is not None and (type(first) is not int or not 0 <= first < _FARTHEST):
        raise ValueError(f"{command}: from is {str(first)[:40]}; give the number of a step")
    return CaptureRequest(steps, first)
