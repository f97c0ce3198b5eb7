"""Whose log a file is: rank, host and stream, from its name and its folders.

torchrun:    HOST/RUN/attempt_0/LOCAL_RANK/stderr.log
Slurm:       slurm-JOB_TASK.out, JOB-TASK.out
Kubernetes:  NAMESPACE_POD_UID/CONTAINER/0.log, POD.log
plain:       rank_3.log, worker-3.err, HOST/rank3.log
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import PurePath

_TORCHRUN = re.compile(r"(?:^|/)attempt_(\d{1,4})/(\d{1,5})/(stdout|stderr)\.log$")
_ERROR_FILE = re.compile(r"(?:^|/)attempt_(\d{1,4})/(\d{1,5})/error\.json$")
_SLURM = re.compile(r"(?:^|/)slurm-\d+[_-](\d{1,6})\.(?:out|err|log)$")
_RANK = re.compile(r"(?i)(?:rank|worker|proc|task)[-_.]?0*(\d{1,6})(?!\d)")
_POD = re.compile(
    r"(?:^|/)(?:[\w-]+_)?([a-z0-9-]*?(?:worker|master|node)[a-z0-9-]*)(?:_[0-9a-f-]{8,})?/"
)
_KERNEL = re.compile(r"(?i)(?:^|/)(?:kern(?:el)?|dmesg|messages|syslog|journal)[\w.-]*$")
_LAUNCHER = re.compile(r"(?i)torchrun|launcher|elastic|agent")


@dataclass(frozen=True)
class Place:
    """What a name says. `rank`, `local_rank`: None unknown; `is_host_log`: of no rank."""

    rank: int | None = None
    local_rank: int | None = None
    stream: str = "log"
    is_host_log: bool = False


def place_of(name: str) -> Place:
    """Of a file, by its path as it was given."""
    name = name.replace("\\", "/")
    if found := _TORCHRUN.search(name):
        return Place(local_rank=int(found[2]), stream=found[3])
    if found := _ERROR_FILE.search(name):
        return Place(local_rank=int(found[2]), stream="stderr")
    file = PurePath(name).name
    if _KERNEL.search(name):
        return Place(stream="kernel", is_host_log=True)
    stream = _stream_of(file)
    if found := _SLURM.search(name):
        return Place(int(found[1]), stream=stream)
    if found := _RANK.search(file):
        return Place(int(found[1]), stream=stream)
    if _LAUNCHER.search(file):
        return Place(stream="launcher", is_host_log=True)
    return Place(stream=stream)


def _stream_of(file: str) -> str:
    if "stderr" in file or file.endswith(".err"):
        return "stderr"
    return "stdout" if "stdout" in file or file.endswith(".out") else "log"


def hosts_of(names: list[str]) -> dict[str, str]:
    """Host of each file, by the folders in which the files differ first; '' unknown.

    Folders are hosts where there are several next to each other, none of them a number or a part
    of a launcher's layout.
    """
    parts = {name: PurePath(name.replace("\\", "/")).parts for name in names}
    shared = _shared(list(parts.values()))
    first = {name: part[shared] if len(part) > shared + 1 else "" for name, part in parts.items()}
    folders = {folder for folder in first.values() if folder}
    if len(folders) < 2 or any(_is_layout(folder) for folder in folders):
        return dict.fromkeys(names, "")
    return first


def _shared(paths: list[tuple[str, ...]]) -> int:
    """How many folders all of them begin with."""
    count = 0
    for level in zip(*(path[:-1] for path in paths), strict=False):
        if len(set(level)) > 1:
            break
        count += 1
    return count


def _is_layout(folder: str) -> bool:
    return folder.isdigit() or folder.startswith(("attempt_", "none_", "rank", "logs"))


def pod_of(name: str) -> str:
    """The pod of a file of a Kubernetes log folder; '' where it is none."""
    found = _POD.search(name.replace("\\", "/"))
    return found[1] if found else ""
