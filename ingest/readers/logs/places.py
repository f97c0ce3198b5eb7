"""What the name of a log says: rank, host and stream.

torchrun:    HOST/RUN/attempt_0/LOCAL_RANK/stderr.log
Slurm:       slurm-JOB_TASK.out, JOB-HOST-TASK.out
Kubernetes:  NAMESPACE_POD_UID/CONTAINER/0.log, POD.log
plain:       rank_3.log, worker-3.err, HOST/rank3.log
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePath

_TORCHRUN = re.compile(r"(?:^|/)attempt_\d{1,4}/(\d{1,5})/(stdout|stderr)\.log(?:\.gz)?$")
_ERROR_FILE = re.compile(r"(?:^|/)attempt_\d{1,4}/(\d{1,5})/error\.json$")
_SLURM = re.compile(r"(?:^|/)slurm-\d+[_-](\d{1,6})\.(?:out|err|log)$")
_RANK = re.compile(r"(?i)(?:rank|proc|task)[-_.]?0*(\d{1,6})(?!\d)")
_WORKER = re.compile(r"(?i)worker[-_.]?0*(\d{1,6})(?!\d)")
_NUMBERED = re.compile(r"^(.*?)[-_.](\d{1,6})\.(?:out|err|log|txt)(?:\.gz)?$")
_POD_FOLDER = re.compile(r"(?:^|/)[a-z0-9-]+_([a-z0-9.-]+)_[0-9a-f-]{8,36}/[^/]+/\d+\.log$")
_POD_FILE = re.compile(r"(?:^|/)([a-z0-9-]*(?:worker|master|launcher)-\d+)[^/]*\.(?:log|txt)$")
_OF_KERNEL = r"(?:kern(?:el)?|dmesg|kmsg|messages|syslog|journal(?:ctl)?)(?![a-z])"
_KERNEL = re.compile(rf"(?i)(?:^|[._-]){_OF_KERNEL}")
_WORDS_OF_KERNEL = re.compile(rf"(?i)[._-]?(?:{_OF_KERNEL}|(?:log|txt|json|gz)(?![a-z]))[._-]?")
_LAUNCHER = re.compile(r"(?i)torchrun|launcher|elastic|agent")
_HOST = re.compile(r"(?=.*\d|.*\.)[A-Za-z][\w.-]{1,80}")
_NO_HOST = re.compile(
    r"(?i)(?:attempt|none|rank|logs?|run|job|step|epoch|version|v|stdout|stderr|slurm|nccl|day|train)"
    r"(?:[-_.].*|\d*)|\d.*"
)
_SURE_HOST = re.compile(r"(?i)node|host|gpu|dgx|hgx|compute|server|srv|nid\d|^ip-\d")
"""Words in names of hosts, where nothing next to them shows that they are some."""
_JOB = re.compile(r"^(?:[A-Za-z]{1,30}[-_.])?\d{3,12}[-_.]")
_NO_RANKS = re.compile(
    r"(?i)(?:node|host|machine|server|pod|replica|part|shard|epoch|step|run|job|attempt|log|day)s?$"
)
"""Words before numbers that do not count ranks."""


@dataclass(frozen=True)
class Place:
    """What a name says. None, empty: unknown.

    `local_rank`: of the ranks of `agent`, the folder of one torchrun; `worker`: a rank, or a host,
    or a pod; `number`: the last number of the name, perhaps a rank; `is_host_log`: of no rank.
    """

    rank: int | None = None
    local_rank: int | None = None
    agent: str = ""
    worker: int | None = None
    number: int | None = None
    host: str = ""
    stream: str = "log"
    is_host_log: bool = False


def place_of(name: str) -> Place:
    """Of a file, by its path as it was given."""
    name = name.replace("\\", "/")
    if match := _TORCHRUN.search(name):
        agent = name[: match.start()]
        return Place(local_rank=int(match[1]), agent=agent, stream=match[2])
    if match := _ERROR_FILE.search(name):
        return Place(local_rank=int(match[1]), agent=name[: match.start()], stream="stderr")
    if match := _POD_FOLDER.search(name):
        return Place(host=match[1])
    file = PurePath(name).name
    if _KERNEL.search(file):
        host = _WORDS_OF_KERNEL.sub("", file)
        return Place(host=host if is_like_host(host) else "", stream="kernel", is_host_log=True)
    stream = _stream_of(file)
    if match := _SLURM.search(name):
        return Place(int(match[1]), stream=stream)
    if match := _RANK.search(file):
        return Place(int(match[1]), stream=stream)
    pod = _POD_FILE.search(name)
    if match := _WORKER.search(file):
        return Place(worker=int(match[1]), host=pod[1] if pod else "", stream=stream)
    if _LAUNCHER.search(file):
        return Place(stream="launcher", is_host_log=True)
    match = _NUMBERED.match(file)
    if match and not _NO_RANKS.search(match[1]):
        host = _JOB.sub("", match[1])
        host = pod[1] if pod else host if is_like_host(host) else ""
        return Place(number=int(match[2]), host=host, stream=stream)
    host = file.partition(".log")[0].partition(".out")[0].partition(".err")[0]
    is_host = is_like_host(host) and _SURE_HOST.search(host)
    return Place(host=pod[1] if pod else host if is_host else "", stream=stream)


def _stream_of(file: str) -> str:
    if "stderr" in file or ".err" in file:
        return "stderr"
    return "stdout" if "stdout" in file or ".out" in file else "log"


def folder_hosts(names: Sequence[str]) -> dict[str, str]:
    """Host of each file, by the folders in which the files differ first; '' unknown.

    Folders are hosts where there are several next to each other, all of them named like hosts.
    """
    parts = {name: PurePath(name.replace("\\", "/")).parts for name in names}
    shared = _shared(list(parts.values()))
    first = {name: part[shared] if len(part) > shared + 1 else "" for name, part in parts.items()}
    folders = {folder for folder in first.values() if folder}
    if len(folders) < 2 or not all(map(is_like_host, folders)):
        return dict.fromkeys(names, "")
    return first


def _shared(paths: Sequence[tuple[str, ...]]) -> int:
    """How many folders all of them begin with."""
    count = 0
    for level in zip(*(path[:-1] for path in paths), strict=False):
        if len(set(level)) > 1:
            break
        count += 1
    return count


def is_like_host(text: str) -> bool:
    """Whether a part of a name may be a host's: letters with a number, no word of a layout."""
    return _HOST.fullmatch(text) is not None and _NO_HOST.fullmatch(text) is None


def are_ranks(numbers: Sequence[int]) -> bool:
    """Whether last numbers of names count ranks: 0, 1, 2, ... each once."""
    counted = Counter(numbers)
    return len(counted) > 1 and max(counted.values()) == 1 and max(counted) == len(counted) - 1
