"""What a rank of a job tells the benchmark: losses and weights, bit for bit."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import torch

DEVICE = os.environ.get("FRAMEWORKS_DEVICE", "cpu")
"""Where the job computes: cpu or cuda."""
STEPS = int(os.environ.get("FRAMEWORKS_STEPS", "24"))
RANKS = int(os.environ.get("FRAMEWORKS_RANKS", "2"))
"""How many ranks a job starts that starts them itself."""
WITH_LINES = os.environ.get("FRAMEWORKS_LINES") == "1"
"""Whether the job has the lines of docs/frameworks.md in it."""

if DEVICE == "cuda":
    torch.use_deterministic_algorithms(True, warn_only=True)  # losses are compared bit for bit


def write(rank: int, losses: Mapping[int, float], parameters: Iterable[Any]) -> None:
    """Write this rank's report; nothing where no benchmark asks for one.

    `losses` by the step number of the framework. `parameters`: tensors of this rank after training.
    """
    folder = os.environ.get("FRAMEWORKS_REPORT")
    if folder is None:
        return
    digest = hashlib.sha256()
    for parameter in parameters:
        tensor = parameter.detach()
        tensor = tensor.to_local() if hasattr(tensor, "to_local") else tensor
        digest.update(tensor.cpu().contiguous().numpy().tobytes())
    exact = {step: float(loss).hex() for step, loss in losses.items()}
    text = json.dumps({"rank": rank, "losses": exact, "weights": digest.hexdigest()})
    (Path(folder) / f"rank-{rank}.json").write_text(text, encoding="utf-8")
