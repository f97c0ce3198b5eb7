"""The machine of the kit, queried in a separate process, so that no part inherits CUDA."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from dataclasses import asdict, dataclass

_ASK = """
import json, platform, torch
if torch.cuda.is_available():
    devices = [torch.cuda.get_device_properties(n) for n in range(torch.cuda.device_count())]
    nccl = ".".join(map(str, torch.cuda.nccl.version()))
    print(json.dumps({
        "devices": [one.name for one in devices],
        "memory_gib": [round(one.total_memory / 2**30, 1) for one in devices],
        "torch": torch.__version__, "cuda": torch.version.cuda or torch.version.hip, "nccl": nccl,
        "python": platform.python_version(),
    }))
"""


@dataclass(frozen=True)
class Machine:
    """What a reader of the results must know about it."""

    devices: list[str]
    memory_gib: list[float]
    torch: str
    cuda: str
    nccl: str
    python: str
    driver: str = "unknown"

    @property
    def slug(self) -> str:
        """Names a folder."""
        text = f"{len(self.devices)}x-{self.devices[0]}-torch-{self.torch}"
        return re.sub(r"[^A-Za-z0-9.]+", "-", text).strip("-").lower()

    def in_words(self) -> str:
        """One line."""
        names = ", ".join(
            f"{self.devices.count(name)} x {name}" for name in dict.fromkeys(self.devices)
        )
        return (
            f"{names} ({self.memory_gib[0]:g} GiB), driver {self.driver}, torch {self.torch}, "
            f"CUDA {self.cuda}, NCCL {self.nccl}, Python {self.python}"
        )

    def to_json(self) -> dict[str, object]:
        """For a file of results."""
        return asdict(self)


def this_machine() -> Machine | None:
    """The machine; None if torch finds no CUDA device."""
    done = subprocess.run([sys.executable, "-c", _ASK], capture_output=True, text=True, timeout=300)
    if done.returncode != 0:
        raise SystemExit(f"torch cannot list its devices: {done.stderr.strip()[-500:]}")
    if not done.stdout.strip():
        return None
    return Machine(**json.loads(done.stdout), driver=_driver())


def _driver() -> str:
    command = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return "unknown"
    return done.stdout.split("\n")[0].strip() or "unknown"
