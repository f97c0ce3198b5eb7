"""What a capture of kernels is asked with: data, checked by the server and again by each rank."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

COMMAND = "capture_kernels"
MAX_STEPS = 50
_FARTHEST = 1 << 53


@dataclass(frozen=True)
class CaptureRequest:
    """Capture so many steps, beginning with step `first`; None: the next one of each rank."""

    steps: int
    first: int | None = None

    def to_json(self) -> dict[str, Any]:
        """The command's arguments."""
        return {"steps": self.steps, "from": self.first}


def read_request(value: Any) -> CaptureRequest:
    """The request in a command's arguments; raises ValueError, one sentence, for anything else."""
    if not isinstance(value, dict):
        raise ValueError(f'{COMMAND} takes an object such as {{"steps": 3}}')
    unknown = [str(name)[:40] for name in value if name not in ("steps", "from")]
    if unknown:
        raise ValueError(f"{COMMAND} has no {unknown[0]!r}; give steps, and from where you like")
    steps, first = value.get("steps"), value.get("from")
    if type(steps) is not int or not 1 <= steps <= MAX_STEPS:
        raise ValueError(f"{COMMAND}: steps is {str(steps)[:40]}; give 1 to {MAX_STEPS}")
    if first is not None and (type(first) is not int or not 0 <= first < _FARTHEST):
        raise ValueError(f"{COMMAND}: from is {str(first)[:40]}; give the number of a step")
    return CaptureRequest(steps, first)
