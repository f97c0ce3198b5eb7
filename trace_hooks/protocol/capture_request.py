"""The request to capture kernels: data, which the server checks and each rank checks again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

COMMAND = "capture_kernels"
MAX_STEPS = 50
_FARTHEST = 1 << 53


@dataclass(frozen=True)
class CaptureRequest:
    """Capture `steps` steps from step `first` on; None: from the next one of each rank."""

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
        raise ValueError(f"{COMMAND} has no {unknown[0]!r}; give steps and, if you like, from")
    steps, first = value.get("steps"), value.get("from")
    if type(steps) is not int or not 1 <= steps <= MAX_STEPS:
        raise ValueError(f"{COMMAND}: steps is {str(steps)[:40]}; give 1 to {MAX_STEPS}")
    if first is not None and (type(first) is not int or not 0 <= first < _FARTHEST):
        raise ValueError(f"{COMMAND}: from is {str(first)[:40]}; give the number of a step")
    return CaptureRequest(steps, first)
