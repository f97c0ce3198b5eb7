"""What a rank is doing, from the frames of its main thread, and which ranks do the same.

A frame is 'function file:line', innermost first. Ranks are grouped by their frames without line
numbers, below those of torch and of the hooks.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

COMMUNICATION, LOADER, STORAGE, COMPILATION, DEBUGGER, CODE, UNKNOWN = (
    "communication",
    "data loading",
    "storage",
    "compilation",
    "a debugger",
    "code",
    "unknown",
)

_PLACES = (
    (DEBUGGER, ("/pdb.py", "/bdb.py", "/debugpy/", "/pydevd", "/ipdb/", "/pudb/")),
    (COMPILATION, ("torch/_dynamo/", "torch/_inductor/", "/triton/")),
    (STORAGE, ("torch/serialization.py", "distributed/checkpoint/", "safetensors/")),
    (LOADER, ("torch/utils/data/", "datasets/iterable_dataset.py", "streaming/base/")),
    (
        COMMUNICATION,
        (
            "torch/distributed/",
            "trace_hooks/sources/communication/",
            "distributed/distributed_c10d.py",
            "torch/_ops.py",
            "distributed/fsdp/",
        ),
    ),
)
"""Parts of file names; the first that fits the frame counts, frames from the innermost outwards."""

FIRST_GROUP = "init_process_group"
_GROUP_MAKERS = ("new_group", "_new_group_with_tag", FIRST_GROUP, "split_group")

_LONG_TASKS = re.compile(
    r"eval|valid|predict|generat|save|check_?point|ckpt|restor|resum|compil|export|tokeni|preproc|"
    r"download|warm_?up|benchmark|profil"
)
"""In names of functions that may take minutes on one rank in a healthy job."""

_FILES = re.compile(r"save|check_?point|ckpt|restor|resum|export|download", re.IGNORECASE)

_STORAGE_CALLS = (
    *("wait_for_partner", "io_schedule", "folio_wait", "wait_on_page", "filemap_", "blkdev_"),
    *("nfs", "rpc_", "fuse_", "request_wait_answer", "cifs_", "smb", "ceph_", "jbd2_", "ext4_"),
    *("xfs_", "btrfs_", "cl_sync", "ll_", "osc_", "ptlrpc_", "gpfs", "d_alloc_parallel"),
)
"""Kernel functions of Linux's block layer and file systems; wait_for_partner opens a FIFO."""

_OURS = ("trace_hooks/",)
_LIBRARIES = ("site-packages/", "lib/python3", "torch/", "importlib")
_MOST_FRAMES = 12


def activity_of(frames: Iterable[str]) -> str:
    """What the main thread does: one of the words above; UNKNOWN without frames."""
    frames = tuple(frames)
    if not frames:
        return UNKNOWN
    for frame in frames[:_MOST_FRAMES]:
        for activity, parts in _PLACES:
            if any(part in frame for part in parts):
                return activity
        if is_users(frame):
            return CODE  # the user's own frame: what it calls in libraries was looked at before
    return CODE


def communicates(frame: str) -> bool:
    """Whether the innermost frame of a thread is in torch.distributed, or in the hooks there."""
    return activity_of((frame,)) == COMMUNICATION


def makes_group(frames: Iterable[str]) -> bool:
    """Whether the main thread is making a process group, for which it waits for the other ranks."""
    return any(frame.split(" ", 1)[0] in _GROUP_MAKERS for frame in frames)


def makes_first_group(frames: Iterable[str]) -> bool:
    """Whether that is the one of the whole job."""
    return any(frame.split(" ", 1)[0] == FIRST_GROUP for frame in frames)


def users_frame(frames: Iterable[str]) -> str:
    """The innermost frame outside of libraries and hooks, else the innermost; '' without frames."""
    frames = tuple(frames)
    own = filter(is_users, frames)
    return next(own, frames[0] if frames else "")


def long_task(frames: Iterable[str]) -> str:
    """The user's innermost function that is long by design ("evaluate"), by its name; '' none."""
    functions = (frame.split(" ", 1)[0] for frame in frames if is_users(frame))
    return next((name for name in functions if _LONG_TASKS.search(name.lower())), "")


def waits_for_storage(call: str, frames: Iterable[str]) -> bool:
    """Whether a kernel function waits for a file: by its name, or a pipe opened as a checkpoint."""
    if call.startswith(_STORAGE_CALLS):
        return True
    return call.endswith(("pipe_read", "pipe_write")) and bool(_FILES.search(long_task(frames)))


def is_users(frame: str) -> bool:
    """Whether a frame is neither of a library nor of the hooks."""
    return not any(part in frame for part in (*_OURS, *_LIBRARIES))


@dataclass(frozen=True)
class Alike:
    """Ranks whose main threads stand at the same place. `frames`: innermost first."""

    ranks: tuple[int, ...]
    frames: tuple[str, ...]
    activity: str


def alike(frames_by_rank: Mapping[int, tuple[str, ...]]) -> list[Alike]:
    """Ranks grouped by equal frames, the smallest group first; ranks without frames left out."""
    groups: dict[tuple[str, ...], list[int]] = {}
    for rank, frames in sorted(frames_by_rank.items()):
        if frames:
            groups.setdefault(tuple(map(without_line, frames)), []).append(rank)
    found = [
        Alike(tuple(ranks), frames_by_rank[ranks[0]], activity_of(frames))
        for frames, ranks in groups.items()
    ]
    return sorted(found, key=lambda one: (len(one.ranks), one.ranks))


def without_line(frame: str) -> str:
    """A frame without its line number: 'function file'."""
    return frame.rpartition(":")[0]
