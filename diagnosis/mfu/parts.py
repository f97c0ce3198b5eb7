"""The parts that the time of the devices is divided into, in the order of the waterfall."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Part:
    """`name`: column of the saved queries device_time and device_time_by_rank, without _ms."""

    name: str
    title: str
    meaning: str


COMPUTE = "compute"
KERNELS = Part(
    COMPUTE,
    "Kernels below peak",
    "compute beyond what the model's FLOPs take at peak: shapes, kernels, memory-bound operations",
)
"""The compute of a job whose FLOPs and peak are known."""
PARTS = (
    Part(COMPUTE, "Compute", "forward, backward and optimizer, or kernels"),
    Part("recompute", "Recomputation", "forwards computed again for a backward"),
    Part("core_wait", "Kept from CPU cores", "compute on CPU beyond its CPU time"),
    Part("moving_tp", "TP communication", "tensor-parallel, not hidden by compute"),
    Part("moving_pp", "PP communication", "sends and receives of the pipeline, not hidden"),
    Part("moving_dp", "DP communication", "data-parallel, not hidden by compute"),
    Part("moving_ep", "EP communication", "of the expert axis, not hidden by compute"),
    Part("moving_other", "Other communication", "of other groups, not hidden by compute"),
    Part(
        "pipeline", "Pipeline bubble", "idle between stages: by the schedule, or for a late stage"
    ),
    Part("waiting", "Waiting for other ranks", "in groups of one stage, until the last rank comes"),
    Part("data", "Waiting for data", "blocked on the next batch"),
    Part("gc", "Garbage collections", "of Python, while the rank does nothing else"),
    Part("host", "Host and launches", "host code, launches and copies, and the device idles"),
    Part("checkpoint", "Checkpoints", "saving, while the rank does nothing else"),
    Part("unseen", "Not recorded", "nothing was recorded: compute, host code or idle time"),
)
NAMES = tuple(part.name for part in PARTS)
LONGEST = ("data", "gc", "host", "checkpoint")
"""Parts of a rank by which all others may have to wait for it: known of the slowest rank, too."""
DIRECT = (*LONGEST, *(name for name in NAMES if name.startswith("moving_")))
"""Neither compute nor waiting, whose noise hides what is small."""
WAITING = ("pipeline", "waiting")
COMMUNICATION = tuple(name for name in NAMES if name.startswith("moving_"))


def title_of(name: str, mfu_known: bool) -> str:
    """What a part is called: compute only where MFU is unknown, else what it lacks to the peak."""
    if name == COMPUTE and mfu_known:
        return KERNELS.title
    return next(part.title for part in PARTS if part.name == name)
