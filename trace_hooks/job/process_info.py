"""Host and rank of this process, and the process that launched it.

The sources are the environment, /proc, and torch.distributed where the job has initialised it.
Nothing here imports torch.
"""

from __future__ import annotations

import hashlib
import multiprocessing
import os
import socket
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

_RANK_VARIABLES = (
    ("RANK", "WORLD_SIZE", "LOCAL_RANK"),
    ("SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID"),
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK"),
    ("PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID"),
)


@dataclass(frozen=True)
class Place:
    """Rank of a process among those of its job; `sure` when torch itself uses it."""

    rank: int
    world_size: int
    local_rank: int
    sure: bool


def distributed() -> Any | None:
    """torch.distributed, where the job has imported it and initialised its default group."""
    module = sys.modules.get("torch.distributed")
    if module is None or not module.is_available() or not module.is_initialized():
        return None
    return module


def find_place(environ: Mapping[str, str]) -> Place | None:
    """Place from torch.distributed, else from the launcher's variables; None without either."""
    hint = next((p for names in _RANK_VARIABLES if (p := _from_variables(environ, names))), None)
    group = distributed()
    if group is not None:
        rank = int(group.get_rank())
        text = environ.get("LOCAL_RANK", "")
        local = int(text) if text.isdecimal() else hint.local_rank if hint else rank
        return Place(rank, int(group.get_world_size()), local, sure=True)
    return hint


def _from_variables(environ: Mapping[str, str], names: tuple[str, str, str]) -> Place | None:
    rank, world, local = (environ.get(name, "") for name in names)
    if not rank.isdecimal() or not world.isdecimal() or int(rank) >= int(world):
        return None
    local_rank = int(local) if local.isdecimal() else int(rank)
    return Place(int(rank), int(world), local_rank, sure=names[0] == "RANK")


def may_still_join() -> bool:
    """Whether a process without a rank may yet initialise torch.distributed."""
    return "torch.distributed" in sys.modules or multiprocessing.parent_process() is not None


@cache
def host_name() -> str:
    """Name of this host."""
    return socket.gethostname() or "unknown"


@cache
def clock_domain() -> str:
    """Processes share a monotonic clock where they share this: a boot and a time namespace."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        return f"{boot} {Path('/proc/self/ns/time').readlink()}"
    except OSError:
        return host_name()


def start_ticks(pid: int) -> int | None:
    """When a process started, in clock ticks since boot; None when it is gone or a zombie.

    Together with the pid it identifies a process. Source: proc(5), fields 3 and 22 of stat.
    """
    try:
        stat = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return None
    fields = stat[stat.rindex(b")") + 2 :].split()
    return None if fields[0] in (b"Z", b"X") else int(fields[19])


def process_age_ns() -> int | None:
    """How long this process has existed, with a resolution of 10 ms; None where /proc is missing.

    Until it became this program (execve) it may have been a copy of its launcher for a moment.
    """
    ticks = start_ticks(os.getpid())
    if ticks is None:
        return None
    started_ns = ticks * 1_000_000_000 // os.sysconf("SC_CLK_TCK")
    return max(time.clock_gettime_ns(time.CLOCK_BOOTTIME) - started_ns, 0)


def parent_of(pid: int) -> int:
    """Pid of a process' parent; 0 where it is unknown."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return 0
    return int(stat[stat.rindex(b")") + 2 :].split()[1])


def agent_key(environ: Mapping[str, str]) -> str | None:
    """Key of the torchrun agent above this process; None under another launcher.

    The agent outlives the workers it restarts and its rendezvous id ("none" by default) is not
    unique, so the process itself names the launch: host, boot, pid and start time of the nearest
    ancestor that was not itself given a worker's environment.
    """
    if "TORCHELASTIC_RUN_ID" not in environ:
        return None
    pid = os.getppid()
    while pid > 1 and _is_worker(pid):
        pid = parent_of(pid)
    return short_hash(host_name(), clock_domain(), pid, start_ticks(pid))


def _is_worker(pid: int) -> bool:
    try:
        return b"TORCHELASTIC_RUN_ID=" in Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return False


def launch_key(environ: Mapping[str, str]) -> str:
    """Key that the processes of one start of a job on one host have in common."""
    agent = agent_key(environ)
    if agent is not None:
        names = ("TORCHELASTIC_RESTART_COUNT", "MASTER_PORT")
        return short_hash(agent, *(environ.get(name) for name in names))
    if multiprocessing.parent_process() is not None:
        return short_hash(os.getppid(), start_ticks(os.getppid()))
    shared = ("SLURM_JOB_ID", "SLURM_STEP_ID", "MASTER_ADDR", "MASTER_PORT", "WORLD_SIZE")
    if environ.get("WORLD_SIZE", environ.get("SLURM_NTASKS", "1")) != "1":
        return short_hash(os.getppid(), *(environ.get(name) for name in shared))
    return short_hash(os.getpid(), start_ticks(os.getpid()))


def short_hash(*parts: object) -> str:
    """16 hexadecimal digits that stand for `parts`."""
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:16]
