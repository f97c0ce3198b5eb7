"""run.json and ranks/ATTEMPT-RANK.json, which describe this run and this rank."""

from __future__ import annotations

import json
import os
import platform
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from trace_hooks.job.process_info import host_name
from trace_hooks.layout import ParallelLayout
from trace_hooks.protocol.job_claims import attempt_file, first_text, new_start
from trace_hooks.schema import SCHEMA_VERSION, RankInfo, RunInfo
from trace_hooks.version import __version__


def run_info(
    run: str, created_ns: int, model: dict[str, Any] | None, guesses: list[str]
) -> RunInfo:
    """Content of run.json."""
    torch = sys.modules.get("torch")
    versions = {"python": platform.python_version(), "trace_hooks": __version__}
    if torch is not None:
        versions["torch"] = str(torch.__version__)
    info = RunInfo(
        schema=SCHEMA_VERSION,
        run=run,
        created_ns=created_ns,
        clock="absolute",
        source="hooks",
        framework="torch" if torch is not None else "python",
        versions=versions,
    )
    if model is not None:
        info["model"] = model
    if guesses:
        info["guesses"] = guesses
    return info


def rank_info(
    *,
    attempt: int,
    rank: int,
    world_size: int,
    local_rank: int,
    device: Device,
    started_ns: int,
    layout: ParallelLayout | None,
    end: dict[str, Any] | None,
    hooks: dict[str, Any],
) -> RankInfo:
    """Content of a rank's file; coordinates are None where the layout does not have the rank."""
    fits = layout is not None and layout.world_size == world_size
    return RankInfo(
        schema=SCHEMA_VERSION,
        attempt=attempt,
        rank=rank,
        world_size=world_size,
        host=host_name(),
        pid=os.getpid(),
        local_rank=local_rank,
        device=device.name,
        device_uuid=device.uuid,
        started_ns=started_ns,
        layout=layout.to_json() if layout is not None else None,
        coords=layout.coords(rank) if layout is not None and fits else None,
        end=end,
        hooks=hooks,
    )


class Device(NamedTuple):
    """What a rank computes on. `uuid`: of an accelerator, as torch has it (without GPU-)."""

    name: str
    uuid: str = ""


CPU = Device("cpu")


def cuda_device(index: int) -> Device:
    """The accelerator of this number in this process, which has begun to use it."""
    import torch

    properties = torch.cuda.get_device_properties(index)
    return Device(str(properties.name), str(getattr(properties, "uuid", "")))


def describe_model(model: Any) -> dict[str, Any] | None:
    """The model given to `start`, for run.json: the user's dict, or a module's size.

    Values that JSON cannot hold (a dtype, a path) become text; a module whose
    parameters cannot be counted (lazy ones) is named only.
    """
    if model is None:
        return None
    if isinstance(model, dict):
        return {str(key): _plain(value) for key, value in model.items()}
    description: dict[str, Any] = {"class": type(model).__name__}
    with suppress(AttributeError, TypeError, ValueError, RuntimeError):
        description["parameters_of_rank_0"] = sum(int(p.numel()) for p in model.parameters())
    return description


def _plain(value: Any) -> Any:
    """A value of JSON's types."""
    try:
        return json.loads(json.dumps(value, default=str))
    except (TypeError, ValueError):  # keys that are not text, a structure that contains itself
        return str(value)


def claimed_attempt(folder: Path) -> tuple[int, str]:
    """Number of a new attempt of the run in `folder`, and the id of the start that took it.

    Two starts of one run at the same instant get two numbers: the one that creates attempts/NUMBER
    owns it. Where the folder cannot be written it is the next number, unclaimed.
    """
    number, start = highest_attempt(folder) + 1, new_start()
    with suppress(OSError):
        while first_text(attempt_file(folder, number), start) != start:
            number += 1
    return number, start


def highest_attempt(folder: Path) -> int:
    """Number of the newest attempt that was claimed or left a rank's file; -1 for none."""
    claims = (path.name for path in (folder / "attempts").glob("*"))
    files = (path.name.partition("-")[0] for path in (folder / "ranks").glob("*.json"))
    return max((int(name) for name in (*claims, *files) if name.isdecimal()), default=-1)
