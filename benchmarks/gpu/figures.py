"""Results of a part of the kit, and the device that they are from."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path

NEEDS_GPU = "not here: needs a CUDA device"
"""Value of a figure without a number in a rehearsal."""


@dataclass(frozen=True)
class Figure:
    """One measurement or check.

    `holds`: whether its promise holds; None if there is no promise. `note`: what a reader needs to
    judge it, such as the aim.
    """

    name: str
    value: float | str
    unit: str = ""
    holds: bool | None = None
    note: str = ""


@dataclass(frozen=True)
class Place:
    """The device and folder of a part. A rehearsal runs the same code with small sizes on the CPU:
    it shows that the code runs, and nothing about a GPU.
    """

    device: str  # cuda or cpu
    folder: Path  # to write into; empty when the part begins
    say: Callable[[Figure], None]
    """Stores a figure at once: later work may crash the device or take too long."""

    @property
    def is_rehearsal(self) -> bool:
        """Whether this is not a GPU."""
        return self.device == "cpu"

    @property
    def backend(self) -> str:
        """Of torch.distributed."""
        return "gloo" if self.is_rehearsal else "nccl"

    def wait(self) -> None:
        """Until the device has done all its work."""
        if not self.is_rehearsal:
            import torch  # not above: the runner of the parts has no use for it

            torch.cuda.synchronize()

    def say_of_gpu(self, figure: Figure) -> None:
        """Store a figure that needs a GPU; a rehearsal stores that it has none."""
        none = replace(figure, value=NEEDS_GPU, unit="", holds=None, note="")
        self.say(none if self.is_rehearsal else figure)

    def attempt(self, name: str, check: Callable[[], object]) -> None:
        """One check among several: if it fails, a figure says so and the others continue."""
        try:
            check()
        except NotHere as error:
            self.say(Figure(name, f"not here: {error}"))
        except (RuntimeError, OSError, ValueError) as error:
            text = f"{type(error).__name__}: {error}".strip().replace("\n", " ")
            self.say(Figure(name, text[:300], holds=False))

    def new_folder(self) -> Path:
        """An empty folder below `folder`."""
        return Path(tempfile.mkdtemp(dir=self.folder))

    def sized(self, real: int, rehearsed: int) -> int:
        """A size: the measurement's, or a small one for a rehearsal."""
        return rehearsed if self.is_rehearsal else real


class NotHere(Exception):
    """Raised by a part that this device or installation cannot run; its text gives the reason."""


def to_line(figure: Figure) -> str:
    """One line of a file of figures."""
    return json.dumps(asdict(figure)) + "\n"


def read_figures(path: Path) -> list[Figure]:
    """The figures of a file; skips a last line that was cut off."""
    lines = path.read_text("utf-8").splitlines(keepends=True) if path.exists() else []
    return [Figure(**json.loads(line)) for line in lines if line.endswith("\n")]
