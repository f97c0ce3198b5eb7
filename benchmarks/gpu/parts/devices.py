"""(i) Which device a rank says it has: UUIDs under every way to choose devices, and MIG.

A small job starts the hooks, then uses its last visible device, under CUDA_VISIBLE_DEVICES by
index, by UUID, in reverse order, and empty. Its rank file must have the UUID that torch reports for
that device, nvidia-smi must know it, and the hooks must not have initialised CUDA before the job
did, because then a job that forks would fail. A job without a device must end well as one on a CPU.
torch leaves out the prefix GPU- or MIG- that nvidia-smi writes.

MIG is examined where it is enabled, and never switched: no setting of the device is changed. If a
scheduler has set CUDA_VISIBLE_DEVICES itself, only the devices in it are used.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path
from typing import Any

import torch

from benchmarks.gpu.children import Ended, run_job
from benchmarks.gpu.figures import Figure, Place

LIMIT_S = 60.0
VARIABLE = "CUDA_VISIBLE_DEVICES"

_GPU = re.compile(r"GPU (\d+): .*\(UUID: (GPU-[0-9a-f-]+)\)")
_MIG = re.compile(r"\s+MIG .*\(UUID: (MIG-[0-9A-Za-z/-]+)\)")


def measure(place: Place) -> None:
    """Each way to choose devices, in a process of its own."""
    listed = "" if place.is_rehearsal else _nvidia_smi()
    gpus, migs = gpus_of(listed), migs_of(listed)
    if not gpus and not place.is_rehearsal:
        gpus = _gpus_by_torch()
    for name, value in choices(os.environ.get(VARIABLE), gpus, migs).items():
        if value is None:
            place.say(Figure(name, "not here: this machine has none to choose"))
            continue
        folder = place.folder / f"devices-{len(list(place.folder.iterdir()))}"
        folder.mkdir()
        environment = {"TRACE_HOOKS_RING_DIR": str(folder / "rings"), VARIABLE: value}
        ended = run_job("which_device", (folder,), LIMIT_S, environment)
        for figure in figures(name, ended, _rank_file(folder), [*gpus.values(), *migs]):
            place.say(figure)
    if place.is_rehearsal:
        place.say(Figure("UUIDs", "not here: needs a CUDA device"))


def _nvidia_smi() -> str:
    try:
        done = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout


def _gpus_by_torch() -> dict[str, str]:
    """UUID by index where there is no nvidia-smi."""
    uuids = [torch.cuda.get_device_properties(n).uuid for n in range(torch.cuda.device_count())]
    return {str(number): f"GPU-{uuid}" for number, uuid in enumerate(uuids)}


def gpus_of(listed: str) -> dict[str, str]:
    """UUID by index, of what nvidia-smi -L prints."""
    return dict(match.groups() for line in listed.splitlines() if (match := _GPU.match(line)))


def migs_of(listed: str) -> list[str]:
    """UUIDs of MIG devices."""
    return [match[1] for line in listed.splitlines() if (match := _MIG.match(line))]


def choices(outer: str | None, gpus: dict[str, str], migs: list[str]) -> dict[str, str | None]:
    """Values of CUDA_VISIBLE_DEVICES by what they show; None where this machine has none.

    `outer`: what the variable is already.
    """
    entries = outer.split(",") if outer else list(gpus)
    indices = [entry for entry in entries if entry in gpus]
    uuids = [gpus.get(entry, entry) for entry in entries]
    return {
        "by index": indices[-1] if indices else None,
        "by UUID": uuids[-1] if uuids else None,
        "all": ",".join(entries) or None,
        "in reverse order": ",".join(reversed(entries)) if len(entries) > 1 else None,
        "a MIG device": migs[-1] if migs else None,
        "none (empty)": "",
    }


def figures(name: str, ended: Ended, rank: dict[str, Any] | None, known: list[str]) -> list[Figure]:
    """What the rank's file says against what torch and nvidia-smi say."""
    if ended.fault:
        return [Figure(f"{name}: the job", ended.fault, holds=False)]
    by_torch = ended.found
    written = ("", "") if rank is None else (rank["device"], rank["device_uuid"])
    results = [
        Figure(
            f"{name}: the rank's device",
            " ".join(written).strip() or "nothing",
            holds=written == (by_torch["name"], by_torch["uuid"]),
            note=f"torch says {by_torch['name']} {by_torch['uuid']}".strip(),
        ),
        Figure(
            f"{name}: CUDA initialised by the hooks",
            str(by_torch["initialised_by_hooks"]),
            holds=not by_torch["initialised_by_hooks"],
        ),
    ]
    if by_torch["uuid"] and known:
        plain = [uuid.removeprefix("GPU-").removeprefix("MIG-") for uuid in known]
        there = by_torch["uuid"].removeprefix("GPU-").removeprefix("MIG-") in plain
        results.append(Figure(f"{name}: nvidia-smi knows the UUID", str(there), holds=there))
    return results


def _rank_file(folder: Path) -> dict[str, Any] | None:
    paths = list(folder.glob("runs/device/ranks/*.json"))
    answer: dict[str, Any] | None = json.loads(paths[0].read_text("utf-8")) if paths else None
    return answer
